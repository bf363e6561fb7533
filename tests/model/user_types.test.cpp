// Everything that a model is made of, written by a user: layer, loss, optimizer, metric, callback,
// dataset, collective and strategy work together without a change to any header.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/text.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

struct Tanh {
  static constexpr std::string_view name = "my_tanh";
  template <class In>
  using Output = In;
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    pass.y.matrix() = pass.x.matrix().array().tanh().matrix();
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    pass.dx.matrix() = (pass.dy.matrix().array() * (1 - pass.y.matrix().array().square())).matrix();
  }
};
using Net = ls::Sequential<ls::Input<1>, UserDense<8>, Tanh, UserDense<1>>;

/// log cosh of the error.
struct LogCosh {
  static constexpr std::string_view name = "log_cosh";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;
  std::string description() const { return "log_cosh"; }
  template <class T>
  void compute(ls::TensorView<const T> predictions, ls::TensorView<const T> targets,
               std::span<double> losses, ls::TensorView<T> gradient) const {
    for (std::size_t i = 0; i < predictions.samples(); ++i)
      losses[i] = static_cast<double>(std::log(std::cosh(predictions(i, 0) - targets(i, 0))));
    if (gradient.empty()) return;
    gradient.matrix() = (predictions.matrix() - targets.matrix()).array().tanh().matrix();
    gradient.clear_padding();
  }
};
static_assert(ls::Loss<LogCosh, ls::Shape<1>>);

/// Each element's step is divided by the mean of its gradient's size so far, which is a slot.
struct Normalised {
  double learning_rate = 0.01;
  static constexpr std::string_view name = "Normalised";
  std::string description() const { return ls::describe(name, {{"learning_rate", learning_rate}}); }
  std::size_t slots() const { return 1; }
  double initial_slot_value() const { return 0.5; }
  template <class T>
  void update(const ls::UpdateContext& context, std::span<T> parameters,
              std::span<const T> gradients, std::span<T* const> slots) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const T gradient = gradients[i] * static_cast<T>(context.gradient_scale);
      slots[0][i] = T(0.9) * slots[0][i] + T(0.1) * std::abs(gradient);
      parameters[i] -= static_cast<T>(context.learning_rate) * gradient / (slots[0][i] + T(1e-3));
    }
  }
};
static_assert(ls::Optimizer<Normalised>);

/// Share of predictions within 0.2.
struct Within {
  static constexpr std::string_view name = "within";
  static constexpr std::size_t state_size = 2;
  template <class T>
  void update(ls::TensorView<const T> predictions, ls::TensorView<const T> targets,
              std::span<const T>, std::span<double> state) const {
    for (std::size_t i = 0; i < predictions.samples(); ++i)
      state[0] += std::abs(predictions(i, 0) - targets(i, 0)) < T(0.2) ? 1 : 0;
    state[1] += static_cast<double>(predictions.samples());
  }
  double result(std::span<const double> state) const {
    return state[1] > 0 ? state[0] / state[1] : 0;
  }
};
static_assert(ls::Metric<Within>);

/// x -> sin 2x for x in [-1, 1], computed when it is read; batches of 20 of 101 samples, in an
/// order that depends on the pass.
class Sine {
 public:
  std::size_t sample_size() const { return 1; }
  std::size_t target_size() const { return 1; }
  std::int64_t cardinality() const { return 6; }
  void begin(ls::Iteration iteration) {
    offset_ = 37 * iteration.number;
    seek(0);
  }
  std::size_t next() {
    indices_.clear();
    for (std::int64_t i = 20 * position_; i < std::min<std::int64_t>(20 * position_ + 20, 101); ++i)
      indices_.push_back((i * 10 + offset_) % 101);
    position_ += indices_.empty() ? 0 : 1;
    return indices_.size();
  }
  std::span<const std::int64_t> sample_indices() const { return indices_; }
  template <class T>
  void read(std::span<const std::size_t> positions, ls::TensorView<T> x, ls::TensorView<T> y) {
    for (std::size_t row = 0; row < positions.size(); ++row) {
      x(row, 0) = static_cast<T>(indices_[positions[row]]) / T(50) - T(1);
      if (!y.empty()) y(row, 0) = std::sin(2 * x(row, 0));
    }
  }
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position) {
    position_ = position;
    indices_.clear();
  }

 private:
  std::int64_t position_ = 0;
  std::int64_t offset_ = 0;
  std::vector<std::int64_t> indices_;
};
static_assert(ls::Dataset<Sine>);

/// Halves the learning rate when the loss has not become better.
struct HalveOnPlateau {
  double best = 1e9;
  int halvings = 0;
  void on_epoch_end(ls::Training& training, int, const ls::Logs& logs) {
    if (logs.at("loss") >= best) {
      training.set_learning_rate(training.learning_rate() / 2);
      ++halvings;
    }
    best = std::min(best, logs.at("loss"));
  }
};
static_assert(ls::Callback<HalveOnPlateau>);

struct Result {
  std::uint32_t crc = 0;
  std::vector<double> losses;
  double within = 0;
  int halvings = 0;
};

template <class S>
Result train(S& strategy) {
  auto model = ls::compile<Net>(strategy, {.seed = 3}, LogCosh{}, Normalised{}, Within{});
  HalveOnPlateau callback;
  const ls::History history =
      model.fit(Sine(), {.epochs = 60, .verbose = 0, .validation_data = Sine()}, callback);
  CHECK(history["val_within"].back() == model.evaluate(Sine(), {.verbose = 0}).at("within"));
  const auto rows = model.predict(Sine());
  CHECK(rows.rows() == 101);
  return {.crc = model.parameters_crc32c(),
          .losses = history["loss"],
          .within = history["val_within"].back(),
          .halvings = callback.halvings};
}

}  // namespace

TEST_CASE("user's own types train alone") {
  ls::OneDeviceStrategy strategy;
  const Result result = train(strategy);
  CHECK(result.losses.back() < 0.1 * result.losses.front());
  CHECK(result.within > 0.7);
  CHECK(result.halvings > 0);
}

TEST_CASE("user's own types train on several of the user's own workers, to the same result") {
  ls::OneDeviceStrategy alone;
  const Result one = train(alone);
  for (int workers = 1; workers <= 3; ++workers) {
    CAPTURE(workers);
    std::vector<Result> results(static_cast<std::size_t>(workers));
    const auto failures = run_workers(workers, [&](WorkerStrategy& strategy) {
      results[static_cast<std::size_t>(strategy.worker_index())] = train(strategy);
    });
    for (const std::string& failure : failures) CHECK(failure.empty());
    for (const Result& result : results) {
      CHECK(result.crc == results[0].crc);
      CHECK(result.losses == results[0].losses);
      CHECK(result.within == results[0].within);
    }
    for (std::size_t epoch = 0; epoch < 5; ++epoch)
      CHECK(std::abs(results[0].losses[epoch] - one.losses[epoch]) < 1e-5);
    if (workers == 1) CHECK(results[0].crc == one.crc);
  }
}
