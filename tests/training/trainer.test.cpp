#include "lockstep/training/trainer.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/losses.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/auc.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/loops.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/moving_trainer.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

using Trainer = ls::detail::Trainer<float>;

TEST_CASE(
    "Trainer: starts from the seed, on each strategy with the same bits, untrained state "
    "too") {
  MovingTrainer one(7), same(7), other(8);
  const auto crc = one.trainer.variables().parameters_crc32c();
  CHECK(same.trainer.variables().parameters_crc32c() == crc);
  CHECK(other.trainer.variables().parameters_crc32c() != crc);
  CHECK(one.trainer.variables().seed == 7);
  CHECK(one.trainer.variables().learning_rate() == 0.125);
  CHECK(one.trainer.replicas() == 1);
  ls::MirroredStrategy mirrored({.replicas = 3});
  const Trainer three(moving_program, ls::any_strategy(mirrored), 7);
  CHECK(three.replicas() == 3);
  CHECK(three.variables().parameters_crc32c() == crc);
  const float moving = one.trainer.workspace(0).state().slices()[0][1];
  CHECK(moving != 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(three.workspace(i).state().slices()[0][1] == moving);
}

TEST_CASE("named_arrays: every variable in its place among the layers, with its own values") {
  using Net = ls::Sequential<ls::Input<4>, UserDense<3>, ls::BatchNormalization<>, UserDense<2>>;
  const ls::detail::Compiled<Net, float, ls::MeanSquaredError, ls::SGD> program({}, {}, {});
  ls::MirroredStrategy mirrored({.replicas = 2});
  const Trainer trainer(program, ls::any_strategy(mirrored), 7);
  const auto arrays = trainer.named_arrays(1);
  std::vector<std::string> names;
  for (const auto& array : arrays) names.push_back(array.name);
  CHECK(names == std::vector<std::string>{"user_dense/kernel", "user_dense/bias",
                                          "batch_normalization/gamma", "batch_normalization/beta",
                                          "batch_normalization/moving_mean",
                                          "batch_normalization/moving_variance",
                                          "user_dense_1/kernel", "user_dense_1/bias"});
  const auto trained = trainer.variables().parameters().slices(),
             untrained = trainer.workspace(1).state().slices();
  CHECK(arrays[0].values.data() == trained[0].data());
  CHECK(arrays[3].values.data() == trained[3].data());
  CHECK(arrays[4].values.data() == untrained[0].data());
  CHECK(arrays[5].values.data() == untrained[1].data());
  CHECK(arrays[7].values.data() == trained[5].data());
  for (const auto& array : arrays) CHECK(array.values.size() == array.variable->size());
}

TEST_CASE("Trainer: a wrong LOCKSTEP_LOG is an error, also in a program without run()") {
  ::setenv("LOCKSTEP_LOG", "jsno", 1);
  CHECK_THROWS_WITH_AS(MovingTrainer(7), doctest::Contains("LOCKSTEP_LOG is 'jsno'"),
                       ls::ConfigurationError);
  ::unsetenv("LOCKSTEP_LOG");
}

TEST_CASE("Trainer: the seed that the program has asked for is known, a drawn one is not") {
  ls::MirroredStrategy mirrored({.replicas = 1});
  CHECK(Trainer(moving_program, ls::any_strategy(mirrored), 7).given_seed() == 7u);
  CHECK_FALSE(Trainer(moving_program, ls::any_strategy(mirrored), {}).given_seed().has_value());
}

TEST_CASE("Trainer: the workers start from the chief's seed and variables") {
  std::array<std::uint64_t, 3> seeds{};
  std::array<std::uint32_t, 3> sums{};
  const auto failures = run_workers(3, [&](WorkerStrategy& strategy) {
    const auto index = static_cast<std::size_t>(strategy.worker_index());
    const Trainer trainer(moving_program, ls::any_strategy(strategy), 5 + index);
    seeds.at(index) = trainer.variables().seed;
    sums.at(index) = trainer.variables().parameters_crc32c();
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
  CHECK(seeds == std::array<std::uint64_t, 3>{5, 5, 5});
  CHECK(sums[0] == MovingTrainer(5).trainer.variables().parameters_crc32c());
  CHECK(sums[1] == sums[0]);
  CHECK(sums[2] == sums[0]);
}

TEST_CASE("Trainer: the signature has a line for each thing that ranks must have in common") {
  CHECK(MovingTrainer(1).trainer.signature() ==
        "scalar type: float32\n"
        "input: (4)\n"
        "model layout: user_dense/kernel (4, 6)\n"
        "model layout: user_dense/bias (6)\n"
        "model layout: user_dense_1/kernel (6, 3)\n"
        "model layout: user_dense_1/bias (3)\n" +
            moving_program.parts_description());
}

TEST_CASE("Trainer: is in fit until fit returns or throws") {
  MovingTrainer held(1);
  Trainer& trainer = held.trainer;
  const ls::AnyDataset data(RowDataset(TinyData(20), 5));
  Recorder recorder;
  ls::CallbackList<Recorder> callbacks(recorder);
  int times = 0;
  recorder.at_train_begin = [&](ls::Training&) { times += trainer.is_in_fit() ? 1 : 0; };
  CHECK_FALSE(trainer.is_in_fit());
  ls::detail::fit(trainer, data, {.epochs = 1, .verbose = 0}, callbacks);
  CHECK_FALSE(trainer.is_in_fit());
  recorder.at_train_begin = [&](ls::Training&) {
    times += trainer.is_in_fit() ? 1 : 0;
    throw std::runtime_error("no");
  };
  CHECK_THROWS(ls::detail::fit(trainer, data, {.epochs = 1, .verbose = 0}, callbacks));
  CHECK_FALSE(trainer.is_in_fit());
  CHECK(times == 2);
}

using ls::detail::checked;

TEST_CASE("compile: rounds go neither with sharded updates nor with accumulated gradients") {
  const ls::detail::UpdateRules alone{};
  ls::detail::UpdateRules accumulates{};
  accumulates.accumulation_steps = 2;
  const ls::Synchronization rounds = ls::LocalSGD{.steps = 4}, each_step{};
  CHECK(&checked(rounds, alone, false, false) == &rounds);
  CHECK(&checked(each_step, accumulates, true, false) == &each_step);
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { (void)checked(rounds, alone, true, false); }),
      "with sharded_updates"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { (void)checked(rounds, alone, false, true); }),
      "with MixedFloat16"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { (void)checked(rounds, accumulates, false, false); }),
      "gradient_accumulation_steps=2"));
}

TEST_CASE("compile: probabilities that a model does not give are a warning") {
  using Logits = ls::Sequential<ls::Input<4>, ls::Dense<3>, ls::Flatten>;
  const auto takers = []<class Net, class Loss, class... Metrics>(Net, Loss loss, Metrics... m) {
    return ls::detail::Compiled<Net, float, Loss, ls::SGD, Metrics...>(loss, {}, std::tuple(m...))
        .takers_of_logits();
  };
  CHECK(takers(Logits(), ls::BinaryCrossentropy{}) == "the loss binary_crossentropy");
  CHECK(takers(Logits(), ls::BinaryCrossentropy{.from_logits = true}) == "");
  CHECK(takers(Logits(), ls::KLDivergence{}) == "the loss kl_divergence");
  CHECK(takers(Logits(), ls::Losses{ls::output_loss<0, 1>(ls::MeanSquaredError{}),
                                    ls::output_loss<1, 3>(ls::BinaryCrossentropy{})}) ==
        "the loss losses");
  CHECK(takers(Logits(), ls::MeanSquaredError{}) == "");
  CHECK(takers(Logits(), ls::MeanSquaredError{}, ls::AUC{},
               ls::metrics::BinaryCrossentropy{.loss = {.from_logits = true}},
               ls::metrics::BinaryCrossentropy{}) ==
        "the metric auc and the metric binary_crossentropy");
  CHECK(takers(ls::Sequential<ls::Input<4>, ls::Dense<3>, ls::Softmax>(), ls::KLDivergence{}) ==
        "");
  CHECK(takers(ls::Sequential<ls::Input<4>, ls::Dense<3, ls::Sigmoid>>(),
               ls::BinaryCrossentropy{}) == "");

  const ls::detail::Compiled<Logits, float, ls::BinaryCrossentropy, ls::SGD> program({}, {}, {});
  ls::OneDeviceStrategy alone;
  const CapturedStderr output;
  const auto trainer = ls::detail::make_trainer<float>(program, ls::any_strategy(alone), 1, {},
                                                       ls::detail::no_remote_variables);
  CHECK(contains(output.text(),
                 "warning: compile: the model's last layer has no activation, and the loss "
                 "binary_crossentropy would take what it gives for probabilities: set "
                 ".from_logits = true, or end the model with a softmax or a sigmoid"));
}
