// fit, evaluate and predict have tests of their own.
#include "lockstep/training/trainer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Passes its input on, and has a moving figure.
struct Moving : UserReLU {
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"moving", {2}, uniform_half}};
};
using Net = ls::Sequential<ls::Input<4>, UserDense<6>, Moving, UserDense<3>>;
using Program =
    ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::Adam, ls::Accuracy>;
using Trainer = ls::detail::Trainer<float>;

const Program program({.from_logits = true}, {.learning_rate = 0.125}, {});

/// A trainer of `program`, alone.
struct Setup {
  ls::OneDeviceStrategy strategy;
  Trainer trainer;
  explicit Setup(std::uint64_t seed) : trainer(program, ls::any_strategy(strategy), seed) {}
};

/// Has been trained.
void spoil(Trainer& trainer) {
  for (std::size_t i = 0; i < 2; ++i)
    for (const auto slice : trainer.variables().slots()[i].slices())
      for (float& value : slice) value = static_cast<float>(i) + 0.5F;
  trainer.workspace(0).state().slices()[0][1] = 77;
  trainer.variables().iterations = 12;
  trainer.variables().set_learning_rate(0.25);
  trainer.variables().seed = ~std::uint64_t{0};
  trainer.variables().next_pass = 4;
}

}  // namespace

TEST_CASE(
    "Trainer: starts from the seed, on each strategy with the same bits, untrained state too") {
  Setup one(7), same(7), other(8);
  const auto crc = one.trainer.variables().parameters_crc32c();
  CHECK(same.trainer.variables().parameters_crc32c() == crc);
  CHECK(other.trainer.variables().parameters_crc32c() != crc);
  CHECK(one.trainer.variables().seed == 7);
  CHECK(one.trainer.variables().learning_rate() == 0.125);
  CHECK(one.trainer.replicas() == 1);
  CHECK_FALSE(one.trainer.is_in_fit());
  ls::MirroredStrategy mirrored({.replicas = 3});
  const Trainer three(program, ls::any_strategy(mirrored), 7);
  CHECK(three.replicas() == 3);
  CHECK(three.variables().parameters_crc32c() == crc);
  const float moving = one.trainer.workspace(0).state().slices()[0][1];
  CHECK(moving != 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(three.workspace(i).state().slices()[0][1] == moving);
}

TEST_CASE("Trainer: the workers start from the chief's seed and variables") {
  std::array<std::uint64_t, 3> seeds{};
  std::array<std::uint32_t, 3> sums{};
  const auto failures = run_workers(3, [&](WorkerStrategy& strategy) {
    const auto index = static_cast<std::size_t>(strategy.worker_index());
    const Trainer trainer(program, ls::any_strategy(strategy), 5 + index);
    seeds.at(index) = trainer.variables().seed;
    sums.at(index) = trainer.variables().parameters_crc32c();
  });
  for (const std::string& failure : failures) CHECK(failure.empty());
  CHECK(seeds == std::array<std::uint64_t, 3>{5, 5, 5});
  CHECK(sums[0] == Setup(5).trainer.variables().parameters_crc32c());
  CHECK(sums[1] == sums[0]);
  CHECK(sums[2] == sums[0]);
}

TEST_CASE("Trainer: the signature has a line for each thing that ranks must have in common") {
  CHECK(Setup(1).trainer.signature() ==
        "scalar type: float32\n"
        "input: (4)\n"
        "model layout: user_dense/kernel (4, 6)\n"
        "model layout: user_dense/bias (6)\n"
        "model layout: user_dense_1/kernel (6, 3)\n"
        "model layout: user_dense_1/bias (3)\n" +
            program.parts_description());
}

TEST_CASE("Trainer: what is saved comes back, of all replicas") {
  Setup from(1);
  spoil(from.trainer);
  const ls::TrainingState saved = from.trainer.save_state();
  CHECK(saved.scalar == "float32");
  CHECK(saved.world_size == 1);
  CHECK(saved.iterations == 12);
  CHECK(saved.data_iteration == 4);
  CHECK(saved.parameters.size() == 4);
  REQUIRE(saved.slots.size() == 8);
  CHECK(saved.slots[5].name == "user_dense/bias/slot_1");
  REQUIRE(saved.state.size() == 1);

  ls::MirroredStrategy mirrored({.replicas = 2});
  Trainer to(program, ls::any_strategy(mirrored), 2);
  const CapturedStderr output;
  to.restore_state(saved);
  ls::TrainingState again = to.save_state();
  again.world_size = 1;
  CHECK(again == saved);
  CHECK(to.variables().parameters_crc32c() == from.trainer.variables().parameters_crc32c());
  CHECK(to.variables().next_pass == 4);
  for (std::size_t i = 0; i < 2; ++i) CHECK(to.workspace(i).state().slices()[0][1] == 77);
}

TEST_CASE("Trainer: after a pass that was begun the next one is a new one") {
  Setup setup(1);
  spoil(setup.trainer);
  ls::TrainingState saved = setup.trainer.save_state();
  saved.data_position = 1;
  setup.trainer.restore_state(saved);
  CHECK(setup.trainer.variables().next_pass == 5);
}

TEST_CASE("Trainer: saves into the memory of an earlier state, and says how much that is") {
  Setup setup(1);
  ls::TrainingState saved = setup.trainer.save_state();
  const std::byte* const memory = saved.slots[3].bytes.data();
  spoil(setup.trainer);
  saved = setup.trainer.save_state(std::move(saved));
  CHECK(saved.slots[3].bytes.data() == memory);
  CHECK(saved == setup.trainer.save_state());
  const auto& variables = setup.trainer.variables();
  CHECK(setup.trainer.state_bytes() ==
        3 * variables.parameters().values().size_bytes() +
            setup.trainer.workspace(0).state().values().size_bytes());
}

TEST_CASE("Trainer: a saved state that does not fit is refused, and nothing is changed") {
  Setup setup(1);
  Trainer& trainer = setup.trainer;
  spoil(trainer);
  ls::TrainingState saved = trainer.save_state();
  const ls::TrainingState before = saved;
  saved.iterations = 99;
  saved.seed = 99;
  for (ls::SavedArray& array : saved.parameters)
    for (std::byte& byte : array.bytes) byte = std::byte{1};
  const auto refused = [&](auto change) {
    ls::TrainingState changed = saved;
    change(changed);
    CHECK_THROWS_AS(trainer.restore_state(changed), ls::ConfigurationError);
    CHECK(trainer.save_state() == before);
  };
  refused([](auto& s) { s.scalar = "float64"; });
  refused([](auto& s) { s.signature += "\nmetric: another"; });
  refused([](auto& s) { s.parameters.pop_back(); });
  refused([](auto& s) { s.parameters.push_back(s.parameters.back()); });
  refused([](auto& s) { s.slots.pop_back(); });
  refused([](auto& s) { s.parameters.back().extents = {1}; });
  refused([](auto& s) { s.slots.back().bytes.pop_back(); });
  refused([](auto& s) { s.state.clear(); });
  trainer.restore_state(saved);
  CHECK(trainer.variables().iterations == 99);
}
