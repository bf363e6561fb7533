#include "lockstep/step/compiled.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/losses/mean_squared_error.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Plain descent; its numbers of slots and their initial values are a test's choice.
struct Descent {
  double learning_rate = 0.5;
  std::size_t wanted_slots = 1;
  bool valid = true;
  [[maybe_unused]] static constexpr std::string_view name = "Descent";
  std::string description() const { return "Descent"; }
  void validate() const {
    if (!valid) throw ls::ConfigurationError("Descent: not valid");
  }
  std::size_t slots() const { return wanted_slots; }
  double initial_slot_value() const { return 0.25; }
  template <class T>
  void update(const ls::UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const {
    const T rate = static_cast<T>(context.learning_rate * context.gradient_scale);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] -= rate * gradients[i];
      for (T* slot : slots) slot[i] += static_cast<T>(context.iteration);
    }
  }
};
struct Samples {
  static constexpr std::string_view name = "samples";
  static constexpr std::size_t state_size = 1;
  void update(auto predictions, auto, std::span<double> state) const {
    state[0] += static_cast<double>(predictions.samples());
  }
  double result(std::span<const double> state) const { return state[0]; }
};
struct FirstOutput {
  static constexpr std::string_view name = "first_output";
  static constexpr std::size_t state_size = 2;
  void update(auto predictions, auto, std::span<double> state) const {
    for (std::size_t i = 0; i < predictions.samples(); ++i) state[0] += static_cast<double>(predictions(i, 0));
    state[1] += 1;
  }
  double result(std::span<const double> state) const { return state[1] > 0 ? state[0] : 0; }
};

using Net = ls::Sequential<ls::Input<4>, UserDense<3>>;
using Compiled = ls::detail::Compiled<Net, double, ls::MeanSquaredError, Descent, Samples, FirstOutput>;
static_assert(Compiled::metric_state == 3 && Compiled::target_size == 3);

Compiled make(Descent optimizer = {}) { return Compiled({}, optimizer, {}); }

}  // namespace

TEST_CASE("Compiled: starts with the optimizer's learning rate and slots") {
  const Compiled compiled = make({.learning_rate = 0.125, .wanted_slots = 2});
  CHECK(compiled.state.learning_rate == 0.125);
  CHECK(compiled.state.iterations == 0);
  REQUIRE(compiled.state.slots().size() == 2);
  for (const auto slice : compiled.state.slots()[1].slices())
    for (const double value : slice) CHECK(value == 0.25);
  CHECK(compiled.state.slots()[1].values()[3] == 0);  // between the slices
}

TEST_CASE("Compiled: an optimizer's wrong options are refused") {
  CHECK(contains(message_of<ls::ConfigurationError>([] { (void)make({.valid = false}); }), "not valid"));
  CHECK(contains(message_of<ls::ConfigurationError>([] { (void)make({.wanted_slots = 9}); }),
                 "wants 9 slots, at most 8"));
}

TEST_CASE("Compiled: record adds samples, loss and each metric's state in its own place") {
  const Compiled compiled = make();
  Compiled::Replica replica([](std::size_t bytes) { return ls::Buffer(bytes); });
  replica.resize(2);
  const ls::StepContext context;
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t i = 0; i < 2; ++i) replica.x()(i, f) = 1;
  for (double& value : compiled.state.parameters().slices()[0]) value = 0.5;
  replica.forward(context, compiled.state.parameters().slices());

  Compiled::Status status;
  compiled.record(replica, 3.0, status);
  compiled.record(replica, 4.0, status);
  CHECK(status[Compiled::Status::samples] == 4);
  CHECK(status[Compiled::Status::loss_sum] == 7);
  CHECK(status[Compiled::Status::non_finite] == 0);
  compiled.record(replica, std::numeric_limits<double>::infinity(), status);
  CHECK(status[Compiled::Status::non_finite] == 1);
  CHECK(std::vector<double>(status.metrics().begin(), status.metrics().end()) == std::vector<double>{6, 12, 3});
}

TEST_CASE("Compiled: report gives means, loss first, with a prefix when there is one; without samples 0") {
  const Compiled compiled = make();
  Compiled::Status status;
  ls::Logs logs;
  compiled.report(status, logs);
  CHECK(logs.at("loss") == 0);
  status[Compiled::Status::samples] = 4;
  status[Compiled::Status::loss_sum] = 10;
  status.metrics()[0] = 7;
  compiled.report(status, logs);
  compiled.report(status, logs, "val_");
  std::vector<std::string> keys;
  for (const auto& [key, value] : logs) keys.push_back(key);
  CHECK(keys ==
        std::vector<std::string>{"loss", "samples", "first_output", "val_loss", "val_samples", "val_first_output"});
  CHECK(logs.at("val_loss") == 2.5);
  CHECK(logs.at("samples") == 7);
}

TEST_CASE("Compiled: the parts of an update make the whole") {
  const std::size_t size = make().state.parameters().values().size();
  std::vector<double> gradients(size);
  for (std::size_t i = 0; i < size; ++i) gradients[i] = static_cast<double>(i);
  for (const std::size_t parts : {1u, 2u, 3u, 5u}) {
    const Compiled compiled = make({.wanted_slots = 2});
    for (std::size_t index = 0; index < parts; ++index) {
      const auto [begin, count] = compiled.state.parameters().part(index, parts);
      compiled.update(std::span<const double>(gradients).subspan(begin, count), begin, 10, 7);
    }
    for (std::size_t i = 0; i < size; ++i)
      CHECK(compiled.state.parameters().values()[i] == doctest::Approx(-0.05 * gradients[i]));
    CHECK(compiled.state.slots()[1].slices()[0][0] == 7.25);
    CHECK(compiled.state.slots()[1].slices()[1][2] == 7.25);
  }
}

TEST_CASE("Compiled: the signature has a line for each thing that ranks must have in common") {
  CHECK(make().signature() ==
        "scalar type: float64\n"
        "input: (4)\n"
        "model layout: user_dense/kernel (4, 3)\n"
        "model layout: user_dense/bias (3)\n"
        "output: (3)\n"
        "loss: mean_squared_error\n"
        "optimizer: Descent\n"
        "metric: samples\n"
        "metric: first_output");
}

namespace {

struct SecondUserDense : UserDense<4> {
  static constexpr std::string_view name = "user_dense_1";
};

}  // namespace

TEST_CASE("compile: two layers of one name are refused, because nobody could load a file of their weights") {
  using Ambiguous = ls::Sequential<ls::Input<4>, UserDense<4>, UserDense<4>, SecondUserDense>;
  using Refused = ls::detail::Compiled<Ambiguous, float, ls::MeanSquaredError, Descent>;
  const std::string message =
      message_of<ls::ConfigurationError>([] { Refused(ls::MeanSquaredError{}, Descent{}, std::tuple<>{}); });
  CHECK(contains(message, "layer 2 (UserDense) and layer 3 (UserDense1) are both named 'user_dense_1'"));
}
