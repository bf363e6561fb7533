// The loss scale of MixedFloat16: alone, on threads and on workers, saved and resumed.
#include "lockstep/network/loss_scale.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/model/own_loop.hpp"
#include "lockstep/network/mixed_precision.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/trainer.hpp"
#include "support/captured_stderr.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::on_tcp_workers;

namespace {

using Net =
    ls::Sequential<ls::Input<4>, ls::Dense<8, ls::ReLU>, ls::BatchNormalization<>, ls::Dense<2>>;
/// Two workers share it out by blocks.
using BigNet =
    ls::Sequential<ls::Input<4>, ls::Dense<1030, ls::ReLU>, ls::Dense<1030>, ls::Dense<2>>;
/// (A normalisation of three samples may make gradients larger by 1e-3 to the power of -0.5.)
using Quick =
    ls::MixedFloat16With<ls::LossScaleOptions{.initial_scale = 256, .dynamic_growth_steps = 3}>;

constexpr int samples = 6;

Eigen::MatrixXf inputs(int step) {
  return Eigen::MatrixXf::NullaryExpr(samples, 4, [=](Eigen::Index row, Eigen::Index column) {
    return static_cast<float>((row * 7 + column * 3 + step) % 11) / 11 - 0.5F;
  });
}
/// With an overflow, the gradient of the last sample's loss, 2 * 10000 / 2, times the scale at first
/// is beyond float16. (The last sample is never that of rank 0.)
Eigen::MatrixXf targets(int step, bool overflows) {
  Eigen::MatrixXf y = inputs(step + 5).leftCols(2);
  if (overflows) y(samples - 1, 1) = 10000;
  return y;
}

struct Outcome {
  std::vector<double> scales{};  ///< after each step
  std::vector<std::int64_t> iterations{};
  std::vector<std::vector<float>> weights{};  ///< with those that are not trained
  bool operator==(const Outcome&) const = default;
};

template <class Model>
void note(const Model& model, Outcome& outcome) {
  outcome.scales.push_back(model.dynamic_scale());
  outcome.iterations.push_back(model.iterations());
  std::vector<float>& all = outcome.weights.emplace_back();
  for (const auto& weight : model.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
}

template <class Model>
void make_steps(Model& model, int first, int last, Outcome& outcome) {
  for (int step = first; step < last; ++step) {
    (void)model.train_on_batch(inputs(step), targets(step, step == 2));
    note(model, outcome);
  }
}

/// Six steps, of which the third one overflows.
template <class N = Net, class Policy = Quick, class Strategy>
Outcome train(Strategy& strategy, const ls::Adam& optimizer = {}) {
  auto model =
      ls::compile<N, Policy>(strategy, {.seed = 1}, ls::MeanSquaredError{}, ls::Adam(optimizer));
  Outcome outcome;
  make_steps(model, 0, 6, outcome);
  return outcome;
}

template <class N = Net>
Outcome on_threads(int replicas, const ls::Adam& optimizer = {}) {
  ls::MirroredStrategy strategy({.replicas = replicas});
  return train<N>(strategy, optimizer);
}

template <class Policy>
std::vector<Outcome> on_workers(const ls::MultiWorkerMirroredOptions& options,
                                const ls::Adam& optimizer = {}) {
  const auto addresses = lockstep_test::free_addresses(2);
  std::vector<Outcome> outcomes(2);
  lockstep_test::rethrow_first(lockstep_test::run_threads(2, [&](int rank) {
    ls::Cluster cluster;
    cluster.spec.worker = addresses;
    cluster.task.index = rank;
    ls::MultiWorkerMirroredStrategy<Policy> strategy(cluster, options);
    outcomes[static_cast<std::size_t>(rank)] = train<BigNet>(strategy, optimizer);
  }));
  return outcomes;
}

}  // namespace

TEST_CASE("loss scale: as Keras's LossScaleOptimizer, it is doubled and halved") {
  // (keras/src/optimizers/loss_scale_optimizer.py: step_counter, dynamic_scale)
  const ls::LossScaleOptions options{.initial_scale = 8, .dynamic_growth_steps = 3};
  ls::detail::LossScale scale{8};
  std::vector<double> values;
  for (const bool overflows : {false, false, false, false, false, true, false, false, false, true})
    values.push_back((scale.advance(options, overflows), scale.value));
  CHECK(values == std::vector<double>{8, 8, 16, 16, 16, 8, 8, 8, 16, 8});
  for (int i = 0; i < 400; ++i) scale.advance(options, true);
  CHECK(scale.value == 0x1p-126);
  for (int i = 0; i < 1200; ++i) scale.advance(options, false);
  CHECK(scale.value == 0x1p126);
}

TEST_CASE("loss scale: an update that overflows is left out, and the scale is halved") {
  ls::OneDeviceStrategy alone;
  const Outcome one = train(alone);
  CHECK(one.scales == std::vector<double>{256, 256, 128, 128, 128, 256});
  CHECK(one.iterations == std::vector<std::int64_t>{1, 2, 2, 3, 4, 5});
  for (std::size_t step = 1; step < 6; ++step)
    CHECK((one.weights[step] == one.weights[step - 1]) == (step == 2));  // moving statistics, too
  for (const float value : one.weights.back()) REQUIRE(std::isfinite(value));
  auto float32 = ls::compile<Net>({.seed = 1}, ls::MeanSquaredError{}, ls::Adam{});
  CHECK(float32.dynamic_scale() == 1);
}

TEST_CASE("loss scale: threads and workers leave an update out together") {
  const Outcome threads = on_threads(2);
  CHECK(threads.scales == std::vector<double>{256, 256, 128, 128, 128, 256});
  CHECK(threads.weights[2] == threads.weights[1]);
  for (const Outcome& worker :
       on_tcp_workers<Outcome>(2, 1, "", [](auto& strategy) { return train(strategy); }))
    CHECK(worker == threads);
  const auto teams =
      on_tcp_workers<Outcome>(2, 2, "", [](auto& strategy) { return train(strategy); });
  CHECK(teams[0] == teams[1]);
  CHECK(teams[0].scales == threads.scales);
  CHECK(teams[0].weights[2] == teams[0].weights[1]);
}

TEST_CASE("loss scale: so do workers that update shares, and those that reduce early") {
  const auto patient = lockstep_test::patient_options();
  auto early = patient;
  early.overlap = ls::Overlap::on;
  for (const double norm : {0.0, 0.01}) {
    const ls::Adam optimizer{.clipnorm = norm};
    const Outcome threads = on_threads<BigNet>(2, optimizer);
    CHECK(threads.scales[2] == 128);
    CHECK(threads.weights[2] == threads.weights[1]);
    CHECK(threads.weights[3] != threads.weights[2]);
    const auto check = [&]<class Policy>(const ls::MultiWorkerMirroredOptions& options) {
      for (const Outcome& worker : on_workers<Policy>(options, optimizer)) CHECK(worker == threads);
    };
    using Ring = ls::Ring<ls::Tcp>;
    check.operator()<Ring>({.communication_options = early});
    check.operator()<Ring>({.communication_options = patient, .sharded_updates = true});
    check.operator()<Ring>({.communication_options = early, .sharded_updates = true});
    check.operator()<Ring>({.communication_options = patient, .sharded_gradients = true});
    check.operator()<ls::SharedMemory>({.communication_options = patient});
    check.operator()<ls::SharedMemory>({.communication_options = patient, .sharded_updates = true});
  }
}

TEST_CASE("loss scale: a run that is saved and resumed has the bits of one that is not") {
  const lockstep_test::TemporaryFolder folder;
  const auto compile = [] {
    return ls::compile<Net, Quick>({.seed = 1}, ls::MeanSquaredError{}, ls::Adam{});
  };
  auto whole = compile(), first = compile(), second = compile();
  Outcome expected, resumed;
  make_steps(whole, 0, 8, expected);
  make_steps(first, 0, 4, resumed);  // one finite step after the overflow
  first.save(folder.path("half"));
  second.load(folder.path("half"));
  CHECK(second.dynamic_scale() == 128);
  make_steps(second, 4, 8, resumed);
  CHECK(resumed == expected);
  CHECK(expected.scales == std::vector<double>{256, 256, 128, 128, 128, 256, 256, 256});
  // Between float and this policy: a file of float has no scale.
  auto in_float = ls::compile<Net>({.seed = 2}, ls::MeanSquaredError{}, ls::Adam{});
  in_float.load(folder.path("half"));
  CHECK(in_float.iterations() == 3);
  in_float.save(folder.path("float"));
  auto third = compile();
  third.load(folder.path("float"));
  CHECK(third.dynamic_scale() == 256);
  CHECK(third.get_weights()[0].values == first.get_weights()[0].values);
  // Whatever the model had before.
  second.load(folder.path("float"));
  CHECK(second.dynamic_scale() == 256);
}

TEST_CASE("loss scale: fit counts no update that is left out, and verbose 2 tells") {
  Eigen::MatrixXf x(3 * samples, 4), y(3 * samples, 2);
  for (int step = 0; step < 3; ++step) {
    x.middleRows(step * samples, samples) = inputs(step);
    y.middleRows(step * samples, samples) = targets(step, step == 1);
  }
  ls::MirroredStrategy strategy({.replicas = 2});
  auto model = ls::compile<Net, Quick>(strategy, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  const lockstep_test::CapturedStderr output;
  model.fit(x, y, {.batch_size = samples, .epochs = 2, .verbose = 2, .shuffle = false});
  CHECK(model.iterations() == 4);
  CHECK(model.dynamic_scale() == 64);
  const std::string text = output.text();
  CAPTURE(text);
  CHECK(text.find("loss scale: 128; updates left out in epoch 1, as gradients were not finite: "
                  "1") != std::string::npos);
}

TEST_CASE("loss scale: it saves gradients that float16 has not") {
  const auto moved = []<class Policy>() {
    auto model = ls::compile<ls::Sequential<ls::Input<1>, ls::Dense<1>, ls::Dense<1>>, Policy>(
        {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{.learning_rate = 1});
    auto weights = model.get_weights();
    weights[0].values = {1};
    weights[2].values = {0.125F};
    model.set_weights(weights);
    (void)model.train_on_batch(Eigen::MatrixXf::Constant(1, 1, 1),
                               Eigen::MatrixXf::Constant(1, 1, 0.125F - 0x1p-27F));
    return 0.125F - model.get_weights()[2].values[0];
  };
  // The gradient is 2^-26, and float16 goes on in steps of 2^-24.
  CHECK(moved.operator()<float>() == 0x1p-26F);
  CHECK(moved.operator()<ls::MixedFloat16>() == 0x1p-26F);
  CHECK(moved.operator()<ls::MixedFloat16With<ls::LossScaleOptions{1}>>() == 0);
}

TEST_CASE("loss scale: clipping sees the gradients as they are") {
  const auto weights = []<class Policy>() {
    auto model = ls::compile<Net, Policy>({.seed = 1}, ls::MeanSquaredError{},
                                          ls::SGD{.learning_rate = 1, .global_clipnorm = 0.01});
    (void)model.train_on_batch(inputs(0), targets(0, false));
    return model.get_weights()[0].values;
  };
  const auto scaled = weights.operator()<Quick>(),
             plain = weights.operator()<ls::MixedFloat16With<ls::LossScaleOptions{1}>>();
  for (std::size_t i = 0; i < scaled.size(); ++i)
    CHECK(std::abs(scaled[i] - plain[i]) < 2e-5);  // of steps of 0.01
}

TEST_CASE("loss scale: of a window of steps, one that overflows leaves out the update") {
  ls::MirroredStrategy strategy({.replicas = 2});
  using Plain = ls::Sequential<ls::Input<4>, ls::Dense<8, ls::ReLU>, ls::Dense<2>>;
  const Outcome outcome = train<Plain>(strategy, {.gradient_accumulation_steps = 2});
  CHECK(outcome.iterations == std::vector<std::int64_t>{0, 1, 1, 1, 1, 2});
  CHECK(outcome.scales == std::vector<double>{256, 256, 256, 128, 128, 128});
  CHECK(outcome.weights[3] == outcome.weights[1]);
  CHECK(outcome.weights[5] != outcome.weights[3]);
  for (const Outcome& worker : on_tcp_workers<Outcome>(2, 1, "", [](auto& strategy_of_worker) {
         return train<Plain>(strategy_of_worker, {.gradient_accumulation_steps = 2});
       }))
    CHECK(worker == outcome);
}

TEST_CASE("loss scale: a program's loop is given gradients without it") {
  const auto run = []<class Policy>(bool apart) {
    ls::MirroredStrategy strategy({.replicas = 2});
    auto model =
        ls::compile<Net, Policy>(strategy, {.seed = 1}, ls::MeanSquaredError{}, ls::Adam{});
    Outcome outcome;
    std::vector<double> firsts(2);
    for (int step = 0; step < 6; ++step) {
      const Eigen::MatrixXf x = inputs(step), y = targets(step, step == 2);
      strategy.run([&](auto& replica) {
        auto& mine = model.on(replica);
        const int rank = replica.local_rank();
        const ls::BatchViews<float> room = mine.room(3);
        for (std::size_t i = 0; i < 3; ++i) {
          const Eigen::Index row = rank * 3 + static_cast<Eigen::Index>(i);
          for (std::size_t f = 0; f < 4; ++f) room.x(i, f) = x(row, static_cast<Eigen::Index>(f));
          for (std::size_t f = 0; f < 2; ++f)
            room.targets(i, f) = y(row, static_cast<Eigen::Index>(f));
        }
        const ls::ReplicaBatch<float> batch{.x = room.x, .targets = room.targets};
        if (!apart) return mine.minimize(batch);
        const auto gradients = mine.gradients(batch);
        if (step == 0) firsts[static_cast<std::size_t>(rank)] = gradients.variables[0][0];
        mine.apply(gradients);
      });
      note(model, outcome);
    }
    return std::pair(outcome, firsts);
  };
  const auto [apart, scaled] = run.operator()<Quick>(true);
  const auto [together, unused] = run.operator()<Quick>(false);
  const auto [in_float, plain] = run.operator()<float>(true);
  CHECK(apart.scales == std::vector<double>{256, 256, 128, 128, 128, 256});
  CHECK(apart.scales == together.scales);
  CHECK(apart.iterations == together.iterations);
  CHECK(apart.weights[2] == apart.weights[1]);
  for (std::size_t rank = 0; rank < 2; ++rank)
    CHECK(std::abs(scaled[rank] - plain[rank]) < 0.02 * std::abs(plain[rank]) + 1e-4);
}

TEST_CASE("loss scale: what does not go with it is refused") {
  CHECK_THROWS_WITH_AS(
      (ls::compile<Net, ls::MixedFloat16>({.seed = 1, .synchronization = ls::LocalSGD{}},
                                          ls::MeanSquaredError{}, ls::Adam{})),
      doctest::Contains("LocalSGD(steps=16) with MixedFloat16: all ranks have one loss scale"),
      ls::ConfigurationError);
  const ls::detail::Compiled<ls::MixedFloat16::Network<Net>, float, ls::MeanSquaredError, ls::SGD>
      program(ls::MeanSquaredError{}, ls::SGD{}, {});
  CHECK_THROWS_WITH_AS(
      ls::detail::check_for_servers(program, ls::Synchronization{}),
      doctest::Contains("the loss scale of MixedFloat16 needs all gradients of a step"),
      ls::ConfigurationError);
  (void)on_tcp_workers<int>(2, 1, "dynamic_growth_steps", [](auto& strategy) {
    if (strategy.worker_index() == 0)
      (void)ls::compile<Net, Quick>(strategy, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
    else
      (void)ls::compile<Net, ls::MixedFloat16>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                               ls::SGD{});
    return 0;
  });
}
