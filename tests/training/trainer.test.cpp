#include "lockstep/training/trainer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/training/loops.hpp"
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
