// Optimizers in fit: on one device, on threads and on workers, interrupted and resumed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden/momentum.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/swap_ema_weights.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/lion.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/any_optimizer.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<
    ls::Input<4>, ls::Dense<6, ls::Tanh>,
    ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{.synchronized = true}>,
    ls::Dropout<0.25>, ls::Dense<3>>;
using Plain = ls::Sequential<ls::Input<4>, ls::Dense<6, ls::Tanh>, ls::Dense<3>>;

/// 22 samples.
ls::AnyDataset data(std::int64_t batch) {
  std::vector<double> x(22 * 4), y(22 * 3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i * i));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::cos(static_cast<double>(3 * i));
  return ls::AnyDataset(
      ls::from_tensor_slices(ls::Tensor<double>(x, {22, 4}), ls::Tensor<double>(y, {22, 3}))
          .batch(batch));
}

struct Run {
  AnyOptimizer optimizer;
  std::int64_t batch = 4;  // 6 steps an epoch, the last of 2 samples
  int epochs = 3;
  std::int64_t save_freq = ls::SaveFrequency::epoch;
  std::optional<ls::SwapEMAWeights> swap = {};
};

struct Result {
  std::vector<double> losses{}, validated{}, rates{}, weights{};
  std::vector<double> at_end_of_epoch{};  // the parameters that callbacks see
  double evaluated = 0;
  std::int64_t iterations = 0;
  friend bool operator==(const Result&, const Result&) = default;
};

struct PowerFailure {
  std::optional<int> before_batch;
  int batches = 0;
  std::vector<std::byte> seen{};
  void on_train_batch_begin(ls::Training&, std::int64_t) {
    if (before_batch && batches++ == *before_batch) throw std::runtime_error("power failure");
  }
  void on_epoch_end(ls::Training& training, int, ls::Logs&) { seen = training.parameters(); }
};

template <class Network, class Strategy>
Result train(Strategy& strategy, const Run& run, const std::string& folder,
             std::optional<int> fail_before = {}) {
  auto model =
      ls::compile<Network, double>(strategy, {.seed = 5}, ls::MeanSquaredError{}, run.optimizer);
  PowerFailure failure{.before_batch = fail_before};
  ls::BackupAndRestore backup{
      .backup_dir = folder, .save_freq = run.save_freq, .asynchronous = false};
  ls::FitOptions options{.epochs = run.epochs, .verbose = 0};
  if (run.swap) options.validation_data = data(5);
  ls::SwapEMAWeights swap = run.swap.value_or(ls::SwapEMAWeights{});
  const auto history = run.swap ? model.fit(data(run.batch), options, swap, failure, backup)
                                : model.fit(data(run.batch), options, failure, backup);
  Result result;
  result.losses = history["loss"];
  if (run.swap) result.validated = history["val_loss"];
  result.at_end_of_epoch.resize(failure.seen.size() / sizeof(double));
  std::memcpy(result.at_end_of_epoch.data(), failure.seen.data(), failure.seen.size());
  if (run.optimizer.learning_rate.is_scheduled()) result.rates = history["learning_rate"];
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  result.evaluated = model.evaluate(data(5), {.verbose = 0}).at("loss");
  result.iterations = model.iterations();
  return result;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

/// One device, two replicas, two workers: equal, also where a run is interrupted and resumed. The
/// history of a resumed run has the epochs since.
template <class Network = Net>
Result check_everywhere(const Run& run, std::initializer_list<int> failures,
                        double tolerance = 1e-9) {
  const TemporaryFolder folder;
  const auto check_resumed = [&](const Result& resumed, const Result& whole) {
    CHECK(resumed.weights == whole.weights);
    CHECK(resumed.losses.back() == whole.losses.back());
    if (run.swap) CHECK(resumed.validated.back() == whole.validated.back());
    CHECK(resumed.at_end_of_epoch == whole.at_end_of_epoch);
    CHECK(resumed.evaluated == whole.evaluated);
    CHECK(resumed.iterations == whole.iterations);
  };
  const auto whole_and_resumed = [&](const std::string& name, auto make) {
    auto strategy = make();
    const Result whole = train<Network>(strategy, run, folder.path(name));
    for (const int at : failures) {
      CAPTURE(at);
      const std::string own = folder.path(name + std::to_string(at));
      auto first = make(), second = make();
      CHECK_THROWS_WITH((void)train<Network>(first, run, own, at),
                        doctest::Contains("power failure"));
      check_resumed(train<Network>(second, run, own), whole);
    }
    return whole;
  };
  const Result one = whole_and_resumed("one", [] { return ls::OneDeviceStrategy(); });
  const Result replicas =
      whole_and_resumed("replicas", [] { return ls::MirroredStrategy({.replicas = 2}); });
  CHECK(difference(one.weights, replicas.weights) < tolerance);
  CHECK(difference(one.losses, replicas.losses) < tolerance);
  CHECK(one.rates == replicas.rates);
  CHECK(one.iterations == replicas.iterations);
  const auto on_workers = [&](const std::string& name, std::optional<int> fail_before) {
    std::vector<Result> results(2);
    const auto messages = run_workers(2, [&](WorkerStrategy& strategy) {
      results.at(static_cast<std::size_t>(strategy.worker_index())) =
          train<Network>(strategy, run, folder.path(name), fail_before);
    });
    for (const std::string& message : messages) CHECK(message.empty() == !fail_before.has_value());
    return results;
  };
  for (const Result& worker : on_workers("workers", {})) CHECK(worker == replicas);
  for (const int at : failures) {
    CAPTURE(at);
    const std::string own = "workers" + std::to_string(at);
    on_workers(own, at);
    for (const Result& worker : on_workers(own, {})) check_resumed(worker, replicas);
  }
  return one;
}

}  // namespace

TEST_CASE(
    "gradient_accumulation_steps: windows go on over epochs and saved states, and are never "
    "dropped") {
  for (const std::int64_t save_freq : {ls::SaveFrequency::epoch, std::int64_t{1}}) {
    CAPTURE(save_freq);
    const Result result = check_everywhere(
        {.optimizer = ls::Adam{.learning_rate = 0.05, .gradient_accumulation_steps = 4},
         .save_freq = save_freq},
        {6, 7, 11, 14});
    CHECK(result.iterations == 4);  // 18 steps
  }
  // Windows longer than an epoch, and than training.
  CHECK(check_everywhere(
            {.optimizer =
                 ls::SGD{.learning_rate = 0.1, .momentum = 0.5, .gradient_accumulation_steps = 8}},
            {12})
            .iterations == 2);
  CHECK(
      check_everywhere({.optimizer = ls::SGD{.gradient_accumulation_steps = 99}}, {7}).iterations ==
      0);
}

TEST_CASE(
    "gradient_accumulation_steps: an update is that of one large batch, whatever the sizes of its "
    "parts") {
  for (const double clip : {0.0, 0.1}) {
    const ls::SGD sgd{
        .learning_rate = ls::ExponentialDecay{.initial_learning_rate = 0.2, .decay_steps = 1},
        .momentum = 0.9,
        .global_clipnorm = clip,
        .use_ema = true,
        .ema_momentum = 0.5,
        .gradient_accumulation_steps = 3};
    ls::SGD at_once = sgd;
    at_once.gradient_accumulation_steps = 1;
    // Batches of 8, 8 and 6 make the window.
    const Result parts = check_everywhere<Plain>({.optimizer = sgd, .batch = 8}, {4});
    const Result whole = check_everywhere<Plain>({.optimizer = at_once, .batch = 22}, {2});
    CHECK(difference(parts.weights, whole.weights) < 1e-12);
    CHECK(parts.rates == whole.rates);
    CHECK(parts.iterations == 3);
    CHECK(whole.iterations == 3);
  }
}

TEST_CASE("gradient_accumulation_steps: train_on_batch goes on with a window") {
  const auto weights = [&](std::int64_t steps, int calls, std::size_t batch) {
    ls::OneDeviceStrategy strategy;
    auto model = ls::compile<Plain, double>(
        strategy, {.seed = 5}, ls::MeanSquaredError{},
        AnyOptimizer(ls::SGD{.learning_rate = 0.1, .gradient_accumulation_steps = steps}));
    std::vector<double> all;
    std::vector<double> x(batch * 4), y(batch * 3);
    for (int call = 0; call < calls; ++call) {
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::sin(static_cast<double>(i + x.size() * static_cast<std::size_t>(call)));
      for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = std::cos(static_cast<double>(i + y.size() * static_cast<std::size_t>(call)));
      (void)model.train_on_batch(ls::Tensor<double>(x, {batch, 4}),
                                 ls::Tensor<double>(y, {batch, 3}));
    }
    for (const auto& weight : model.get_weights())
      all.insert(all.end(), weight.values.begin(), weight.values.end());
    CHECK(model.iterations() == calls / steps);
    return all;
  };
  const auto untouched = weights(3, 2, 5), updated = weights(3, 3, 5);
  CHECK(untouched == weights(4, 3, 5));
  CHECK(difference(updated, untouched) > 1e-3);
  CHECK(difference(updated, weights(1, 1, 15)) < 1e-13);
}

TEST_CASE(
    "use_ema: at the end of fit the averages are the weights; SwapEMAWeights evaluates with them "
    "before") {
  const ls::SGD sgd{.learning_rate = 0.3, .momentum = 0.9, .use_ema = true, .ema_momentum = 0.9};
  const Result plain = check_everywhere({.optimizer = sgd, .epochs = 2}, {7});
  const Result first = check_everywhere({.optimizer = sgd, .epochs = 1}, {3});
  const Result swapped =
      check_everywhere({.optimizer = sgd, .epochs = 2, .swap = ls::SwapEMAWeights{}}, {7});
  CHECK(swapped.weights == plain.weights);
  CHECK(swapped.validated == std::vector{first.evaluated, plain.evaluated});
  CHECK(swapped.at_end_of_epoch == plain.at_end_of_epoch);
  // On epochs: other callbacks see the averages, which a state that is saved then knows.
  const Result shown = check_everywhere(
      {.optimizer = sgd, .epochs = 2, .swap = ls::SwapEMAWeights{.swap_on_epoch = true}}, {6, 7});
  CHECK(shown.weights == plain.weights);
  CHECK(shown.validated == swapped.validated);
  CHECK(shown.at_end_of_epoch != plain.at_end_of_epoch);
  // Without averages the weights are others, and there is nothing to swap.
  ls::SGD without = sgd;
  without.use_ema = false;
  CHECK(difference(check_everywhere({.optimizer = without, .epochs = 1}, {}).weights,
                   first.weights) > 1e-3);
  CHECK_THROWS_WITH_AS(
      (void)check_everywhere({.optimizer = without, .swap = ls::SwapEMAWeights{}}, {}),
      doctest::Contains("SwapEMAWeights: the optimizer keeps no averages"), ls::ConfigurationError);
}

TEST_CASE("use_ema: averages count updates, and overwrite the weights every so many of them") {
  const ls::Adam adam{.learning_rate = 0.05,
                      .use_ema = true,
                      .ema_momentum = 0.8,
                      .ema_overwrite_frequency = 2,
                      .gradient_accumulation_steps = 3};
  const Result result = check_everywhere({.optimizer = adam}, {5, 7, 16});
  CHECK(result.iterations == 6);
}

TEST_CASE(
    "momentum under a schedule: every optimizer's weights are Keras's, or PyTorch's by option") {
  namespace golden = golden::momentum;
  using Lines =
      ls::Sequential<ls::Input<golden::size>,
                     ls::Dense<golden::targets, ls::Linear, ls::DenseOptions{.use_bias = false}>>;
  const auto tensor = [](std::span<const double> values, std::size_t columns) {
    return ls::Tensor<double>(std::vector<double>(values.begin(), values.end()),
                              {values.size() / columns, columns});
  };
  const ls::AnyDataset all(
      ls::from_tensor_slices(tensor(golden::x, golden::size), tensor(golden::y, golden::targets))
          .batch(golden::batch));
  const ls::ExponentialDecay decay{
      .initial_learning_rate = 0.1, .decay_steps = 8, .decay_rate = 0.1};
  const auto check = [&](const AnyOptimizer& optimizer, std::span<const double> expected) {
    CAPTURE(optimizer.description());
    ls::OneDeviceStrategy alone;
    auto model = ls::compile<Lines, double>(alone, {.seed = 1}, ls::MeanSquaredError{}, optimizer);
    auto weights = model.get_weights();
    weights[0].values.assign(std::begin(golden::start), std::end(golden::start));
    model.set_weights(weights);
    const double loss = model.fit(all, {.epochs = 1, .verbose = 0})["loss"].back();
    const std::vector<double> found = model.get_weights()[0].values;
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-9));
    CHECK(loss == doctest::Approx(expected.back()).epsilon(1e-9));
  };
  constexpr auto pytorch = ls::MomentumForm::pytorch;
  ls::SGD sgd{.learning_rate = decay, .momentum = 0.9};
  check(sgd, golden::sgd);
  sgd.momentum_form = pytorch;
  check(sgd, golden::sgd_pytorch);
  sgd.nesterov = true;
  check(sgd, golden::sgd_nesterov_pytorch);
  sgd.momentum_form = ls::MomentumForm::keras;
  check(sgd, golden::sgd_nesterov);
  ls::RMSprop rmsprop{.learning_rate = decay, .momentum = 0.7};
  check(rmsprop, golden::rmsprop);
  rmsprop.momentum_form = pytorch;
  check(rmsprop, golden::rmsprop_pytorch);
  rmsprop.centered = true;
  check(rmsprop, golden::rmsprop_centered_pytorch);
  rmsprop.momentum_form = ls::MomentumForm::keras;
  check(rmsprop, golden::rmsprop_centered);
  ls::LARS lars{.learning_rate = decay, .trust_coefficient = 0.5};
  check(lars, golden::lars);
  lars.momentum_form = pytorch;
  check(lars, golden::lars_pytorch);
  check(ls::Adam{.learning_rate = decay}, golden::adam);
  check(ls::AdamW{.learning_rate = decay, .weight_decay = 0.1}, golden::adamw);
  check(ls::Nadam{.learning_rate = decay}, golden::nadam);
  check(ls::Adamax{.learning_rate = decay}, golden::adamax);
  check(ls::Lion{.learning_rate = decay}, golden::lion);
  check(ls::Lamb{.learning_rate = decay}, golden::lamb);
  check(ls::Muon{.learning_rate = decay}, golden::muon);
}

TEST_CASE("every optimizer: the same figures everywhere, and after a resumption") {
  const AnyOptimizer optimizers[] = {
      AnyOptimizer(ls::Nadam{.learning_rate = 0.1, .weight_decay = 0.1}),
      AnyOptimizer(ls::Adamax{.learning_rate = 0.1, .weight_decay = 0.1}),
      AnyOptimizer(ls::RMSprop{
          .learning_rate = 0.1, .momentum = 0.5, .centered = true, .weight_decay = 0.1}),
      AnyOptimizer(ls::Adagrad{.learning_rate = 0.1, .weight_decay = 0.1}),
      AnyOptimizer(ls::Adadelta{.learning_rate = 0.5, .epsilon = 0.01, .weight_decay = 0.1}),
      AnyOptimizer(ls::Lion{.learning_rate = 0.1, .weight_decay = 0.1}),
      AnyOptimizer(ls::Lamb{.learning_rate = 0.1, .weight_decay = 0.1}),
      AnyOptimizer(ls::Adafactor{.learning_rate = 0.5, .weight_decay = 0.1}),
      AnyOptimizer(ls::Muon{.learning_rate = 0.1}),
      AnyOptimizer(ls::Ftrl{.learning_rate = 0.1,
                            .l1_regularization_strength = 0.02,
                            .l2_regularization_strength = 0.03,
                            .l2_shrinkage_regularization_strength = 0.01,
                            .beta = 0.05,
                            .weight_decay = 0.1}),
      AnyOptimizer(ls::LARS{.learning_rate = 1, .trust_coefficient = 0.1, .weight_decay = 0.1})};
  for (AnyOptimizer optimizer : optimizers) {
    CAPTURE(optimizer.description());
    optimizer.exclude_from_weight_decay = ls::fewer_dimensions_than(2);
    optimizer.clipnorm = 0.5;
    optimizer.use_ema = true;
    optimizer.gradient_accumulation_steps = 2;
    check_everywhere<Plain>({.optimizer = optimizer, .epochs = 2}, {7}, 1e-8);
  }
}
