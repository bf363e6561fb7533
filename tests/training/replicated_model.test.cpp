#include "lockstep/training/replicated_model.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/moving_trainer.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

using ReplicatedModel = ls::detail::ReplicatedModel<float>;

TEST_CASE(
    "ReplicatedModel: starts from the seed, on each strategy with the same bits, untrained state "
    "too") {
  MovingTrainer one(7), same(7), other(8);
  const auto crc = one.trainer.variables().parameters_crc32c();
  CHECK(same.trainer.variables().parameters_crc32c() == crc);
  CHECK(other.trainer.variables().parameters_crc32c() != crc);
  CHECK(one.trainer.variables().seed == 7);
  CHECK(one.trainer.variables().learning_rate() == 0.125);
  CHECK(one.trainer.replicas() == 1);
  ls::MirroredStrategy mirrored({.replicas = 3});
  const ReplicatedModel three(moving_program, ls::any_strategy(mirrored), 7);
  CHECK(three.replicas() == 3);
  CHECK(three.variables().parameters_crc32c() == crc);
  const float moving = one.trainer.workspace(0).state().slices()[0][1];
  CHECK(moving != 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(three.workspace(i).state().slices()[0][1] == moving);
}

TEST_CASE("ReplicatedModel: a wrong LOCKSTEP_LOG is an error, also in a program without run()") {
  ::setenv("LOCKSTEP_LOG", "jsno", 1);
  CHECK_THROWS_WITH_AS(MovingTrainer(7), doctest::Contains("LOCKSTEP_LOG is 'jsno'"),
                       ls::ConfigurationError);
  ::unsetenv("LOCKSTEP_LOG");
}

TEST_CASE("ReplicatedModel: the seed that the program has asked for is known, a drawn one is not") {
  ls::MirroredStrategy mirrored({.replicas = 1});
  CHECK(ReplicatedModel(moving_program, ls::any_strategy(mirrored), 7).given_seed() == 7u);
  CHECK_FALSE(
      ReplicatedModel(moving_program, ls::any_strategy(mirrored), {}).given_seed().has_value());
}

TEST_CASE("ReplicatedModel: the workers start from the chief's seed and variables") {
  std::array<std::uint64_t, 3> seeds{};
  std::array<std::uint32_t, 3> sums{};
  const auto failures = run_workers(3, [&](WorkerStrategy& strategy) {
    const auto index = static_cast<std::size_t>(strategy.worker_index());
    const ReplicatedModel trainer(moving_program, ls::any_strategy(strategy), 5 + index);
    seeds.at(index) = trainer.variables().seed;
    sums.at(index) = trainer.variables().parameters_crc32c();
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
  CHECK(seeds == std::array<std::uint64_t, 3>{5, 5, 5});
  CHECK(sums[0] == MovingTrainer(5).trainer.variables().parameters_crc32c());
  CHECK(sums[1] == sums[0]);
  CHECK(sums[2] == sums[0]);
}

TEST_CASE(
    "ReplicatedModel: the signature has a line for each thing that ranks must have in common") {
  CHECK(MovingTrainer(1).trainer.signature() ==
        "scalar type: float32\n"
        "input: (4)\n"
        "model layout: user_dense/kernel (4, 6)\n"
        "model layout: user_dense/bias (6)\n"
        "model layout: user_dense_1/kernel (6, 3)\n"
        "model layout: user_dense_1/bias (3)\n" +
            moving_program.parts_description());
}
