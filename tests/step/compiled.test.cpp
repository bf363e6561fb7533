#include "lockstep/step/compiled.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/precision_recall.hpp"
#include "lockstep/metrics/wrappers.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/step/workspace.hpp"
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
  void update(const ls::UpdateContext& context, std::span<T> parameters,
              std::span<const T> gradients, std::span<T* const> slots) const {
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
  void update(auto predictions, auto, auto, std::span<double> state) const {
    state[0] += static_cast<double>(predictions.samples());
  }
  double result(std::span<const double> state) const { return state[0]; }
};
struct FirstOutput {
  static constexpr std::string_view name = "first_output";
  static constexpr std::size_t state_size = 2;
  void update(auto predictions, auto, auto, std::span<double> state) const {
    for (std::size_t i = 0; i < predictions.samples(); ++i)
      state[0] += static_cast<double>(predictions(i, 0));
    state[1] += 1;
  }
  double result(std::span<const double> state) const { return state[1] > 0 ? state[0] : 0; }
};

using Net = ls::Sequential<ls::Input<4>, UserDense<3>>;
using Compiled =
    ls::detail::Compiled<Net, double, ls::MeanSquaredError, Descent, Samples, FirstOutput>;
static_assert(Compiled::target_size == 3);

void make(const Descent& optimizer) { const Compiled program({}, optimizer, {}); }

/// [samples x features] in memory of its own, all of them `value`.
struct Matrix {
  ls::Buffer memory;
  ls::TensorView<double> view;

  Matrix(std::size_t samples, std::size_t features, double value)
      : memory(features * ls::padded_batch(samples) * sizeof(double)),
        view(reinterpret_cast<double*>(memory.data()), samples, features,
             ls::padded_batch(samples)) {
    for (std::size_t f = 0; f < features; ++f)
      for (std::size_t i = 0; i < samples; ++i) view(i, f) = value;
  }
};

}  // namespace

TEST_CASE("Compiled: the sizes of a sample, of metrics and of the optimizer") {
  const Compiled program({}, {.wanted_slots = 2}, {});
  const auto& layout = program.layout();
  CHECK(layout.variables.size() == 2);
  CHECK(layout.variables[0].size() == 12);
  CHECK(layout.state_variables.empty());
  CHECK(layout.inputs == 4);
  CHECK(layout.targets == 3);
  CHECK(layout.outputs == 3);
  CHECK(layout.metric_state == 3);
  CHECK(layout.slots == 2);
  CHECK(layout.data.input.size() == 1);
  CHECK(layout.data.input[0] == 4);
  CHECK(layout.data.targets == 3);
  CHECK(layout.data.loss == "mean_squared_error");
  CHECK(program.initial_learning_rate() == 0.5);
  CHECK(program.initial_slot_value() == 0.25);
}

TEST_CASE("Compiled: the names of layers and variables") {
  using Normalized =
      ls::Sequential<ls::Input<4>, UserDense<3>, ls::BatchNormalization<>, UserDense<2>>;
  const ls::detail::Compiled<Normalized, float, ls::MeanSquaredError, Descent> program({}, {}, {});
  const ls::detail::ProgramNames names = program.names();
  using Names = std::vector<std::string>;
  CHECK(names.layers == Names{"input", "user_dense", "batch_normalization", "user_dense_1"});
  CHECK(names.variables == Names{"user_dense/kernel", "user_dense/bias",
                                 "batch_normalization/gamma", "batch_normalization/beta",
                                 "user_dense_1/kernel", "user_dense_1/bias"});
  CHECK(names.state_variables ==
        Names{"batch_normalization/moving_mean", "batch_normalization/moving_variance"});
  CHECK(names.order == std::vector<ls::VariablePlace>{{true, 0},
                                                      {true, 1},
                                                      {true, 2},
                                                      {true, 3},
                                                      {false, 0},
                                                      {false, 1},
                                                      {true, 4},
                                                      {true, 5}});
}

TEST_CASE("Compiled: an optimizer's wrong options are refused") {
  CHECK(contains(message_of<ls::ConfigurationError>([] { make({.valid = false}); }), "not valid"));
  CHECK(contains(message_of<ls::ConfigurationError>([] { make({.wanted_slots = 9}); }),
                 "wants 9 slots, at most 8"));
}

TEST_CASE("Compiled: each metric has its own place in the state, and is reported under its name") {
  const Compiled program({}, {}, {});
  const Matrix y(2, 3, 2.5), targets(2, 3, 0);
  std::vector<double> state(3);
  program.update_metrics(y.view, targets.view, {}, {}, state);
  program.update_metrics(y.view, targets.view, {}, {}, state);
  CHECK(state == std::vector<double>{4, 10, 2});
  ls::Logs logs;
  program.report_metrics(state, logs, "");
  program.report_metrics(state, logs, "val_");
  std::vector<std::string> keys;
  for (const auto& [key, value] : logs) keys.push_back(key);
  CHECK(keys ==
        std::vector<std::string>{"samples", "first_output", "val_samples", "val_first_output"});
  CHECK(logs.at("val_samples") == 4);
  CHECK(logs.at("first_output") == 10);
}

TEST_CASE("Compiled: metrics with options, of one name, weighted, and of several figures") {
  using Own = ls::detail::Compiled<Net, double, ls::MeanSquaredError, Descent, ls::F1Score,
                                   ls::BinaryAccuracy, ls::BinaryAccuracy,
                                   ls::Weighted<ls::BinaryAccuracy>>;
  const Own program({}, {},
                    {{}, {.threshold = 0.25}, {.name = "own"}, ls::Weighted{ls::BinaryAccuracy{}}});
  CHECK(program.layout().metric_state == 12 + 3 * 2);
  CHECK(contains(program.parts_description(),
                 "metric: f1_score\n"
                 "metric: binary_accuracy = binary_accuracy(threshold=0.25)\n"
                 "metric: own = binary_accuracy\n"
                 "metric: weighted_binary_accuracy = weighted binary_accuracy"));
  const Matrix y(2, 3, 0.5), targets(2, 3, 1);
  targets.view(1, 0) = 0;
  std::vector<double> state(program.layout().metric_state);
  program.update_metrics(y.view, targets.view, {}, std::vector<double>{1, 3}, state);
  ls::Logs logs;
  program.report_metrics(state, logs, "val_");
  CHECK(logs.contains("val_f1_score"));
  CHECK(logs.contains("val_f1_score_2"));
  CHECK(logs.at("val_binary_accuracy") == 5.0 / 6);
  CHECK(logs.at("val_own") == 1.0 / 6);
  CHECK(logs.at("val_weighted_binary_accuracy") == 3.0 / 12);
  CHECK_THROWS_AS((Own({}, {}, {{.threshold = 2}, {}, {}, {}})), ls::ConfigurationError);
}

TEST_CASE("Compiled: the loss of each sample, with and without its gradient") {
  const Compiled program({}, {}, {});
  const Matrix y(2, 3, 2), targets(2, 3, 0.5), gradient(2, 3, 9);
  std::vector<double> losses(2);
  program.compute_loss(y.view, targets.view, losses, {});
  CHECK(losses == std::vector<double>{1.5 * 1.5, 1.5 * 1.5});
  CHECK(gradient.view(1, 0) == 9);
  program.compute_loss(y.view, targets.view, losses, gradient.view);
  CHECK(losses == std::vector<double>{1.5 * 1.5, 1.5 * 1.5});
  for (std::size_t f = 0; f < 3; ++f) CHECK(gradient.view(1, f) == 2 * 1.5 / 3);
}

TEST_CASE("Compiled: says what ranks must have in common, a line for each thing") {
  const Compiled program({}, {}, {});
  CHECK(program.input_description() == "input: (4)");
  CHECK(program.parts_description() ==
        "output: (3)\n"
        "loss: mean_squared_error\n"
        "optimizer: Descent\n"
        "metric: samples\n"
        "metric: first_output");
}

TEST_CASE("Compiled: the outputs of all layers are shown after forward") {
  const Compiled program({}, {}, {});
  ls::detail::Workspace<double> workspace(program,
                                          [](std::size_t bytes) { return ls::Buffer(bytes); });
  const ls::Arena<double> weights(program.layout().variables);
  for (double& value : weights.slices()[0]) value = 0.5;
  workspace.resize(2);
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t i = 0; i < 2; ++i) workspace.batch().x(i, f) = 1;
  workspace.forward({}, weights.slices());
  std::vector<std::size_t> seen;
  workspace.each_output([&](std::size_t position, const ls::TensorView<const double>& y) {
    seen.push_back(position);
    CHECK(y(1, 2) == 2);
  });
  CHECK(seen == std::vector<std::size_t>{1});  // the input is layer 0
}

namespace {

struct SecondUserDense : UserDense<4> {
  static constexpr std::string_view name = "user_dense_1";
};

}  // namespace

TEST_CASE(
    "compile: two layers of one name are refused, because no program could load a file of their "
    "weights") {
  using Ambiguous = ls::Sequential<ls::Input<4>, UserDense<4>, UserDense<4>, SecondUserDense>;
  using Refused = ls::detail::Compiled<Ambiguous, float, ls::MeanSquaredError, Descent>;
  const std::string message = message_of<ls::ConfigurationError>(
      [] { Refused(ls::MeanSquaredError{}, Descent{}, std::tuple<>{}); });
  CHECK(contains(message,
                 "layer 2 (UserDense) and layer 3 (UserDense1) are both named 'user_dense_1'"));
}
