#include "lockstep/training/model_state.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/captured_stderr.hpp"
#include "support/moving_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::restore_state;
using ls::detail::save_state;
using ls::detail::state_bytes;
using Trainer = ls::detail::Trainer<float>;

namespace {

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

TEST_CASE("model_state: what is saved comes back, of all replicas") {
  MovingTrainer from(1);
  spoil(from.trainer);
  const ls::TrainingState saved = save_state(from.trainer);
  CHECK(saved.scalar == "float32");
  CHECK(saved.world_size == 1);
  CHECK(saved.iterations == 12);
  CHECK(saved.data_iteration == 4);
  CHECK(saved.parameters.size() == 4);
  REQUIRE(saved.slots.size() == 8);
  CHECK(saved.slots[5].name == "user_dense/bias/slot_1");
  REQUIRE(saved.state.size() == 1);

  ls::MirroredStrategy mirrored({.replicas = 2});
  Trainer to(moving_program, ls::any_strategy(mirrored), 2);
  const CapturedStderr output;
  restore_state(to, saved);
  ls::TrainingState again = save_state(to);
  again.world_size = 1;
  CHECK(again == saved);
  CHECK(to.variables().parameters_crc32c() == from.trainer.variables().parameters_crc32c());
  CHECK(to.variables().next_pass == 4);
  for (std::size_t i = 0; i < 2; ++i) CHECK(to.workspace(i).state().slices()[0][1] == 77);
}

TEST_CASE("model_state: after a pass that was begun the next one is a new one") {
  MovingTrainer setup(1);
  spoil(setup.trainer);
  ls::TrainingState saved = save_state(setup.trainer);
  saved.data_position = 1;
  restore_state(setup.trainer, saved);
  CHECK(setup.trainer.variables().next_pass == 5);
}

TEST_CASE("model_state: saves into the memory of an earlier state, and says how much that is") {
  MovingTrainer setup(1);
  ls::TrainingState saved = save_state(setup.trainer);
  const std::byte* const memory = saved.slots[3].bytes.data();
  spoil(setup.trainer);
  saved = save_state(setup.trainer, std::move(saved));
  CHECK(saved.slots[3].bytes.data() == memory);
  CHECK(saved == save_state(setup.trainer));
  const auto& variables = setup.trainer.variables();
  CHECK(state_bytes(setup.trainer) == 3 * variables.parameters().values().size_bytes() +
                                          setup.trainer.workspace(0).state().values().size_bytes());
}

TEST_CASE("model_state: a saved state that does not fit is refused, and nothing is changed") {
  MovingTrainer setup(1);
  Trainer& trainer = setup.trainer;
  spoil(trainer);
  ls::TrainingState saved = save_state(trainer);
  const ls::TrainingState before = saved;
  saved.iterations = 99;
  saved.seed = 99;
  for (ls::SavedArray& array : saved.parameters)
    for (std::byte& byte : array.bytes) byte = std::byte{1};
  const auto refused = [&](auto change) {
    ls::TrainingState changed = saved;
    change(changed);
    CHECK_THROWS_AS(restore_state(trainer, changed), ls::ConfigurationError);
    CHECK(save_state(trainer) == before);
  };
  refused([](auto& s) { s.scalar = "float64"; });
  refused([](auto& s) { s.signature += "\nmetric: another"; });
  refused([](auto& s) { s.parameters.pop_back(); });
  refused([](auto& s) { s.parameters.push_back(s.parameters.back()); });
  refused([](auto& s) { s.slots.pop_back(); });
  refused([](auto& s) { s.parameters.back().extents = {1}; });
  refused([](auto& s) { s.slots.back().bytes.pop_back(); });
  refused([](auto& s) { s.state.clear(); });
  restore_state(trainer, saved);
  CHECK(trainer.variables().iterations == 99);
}
