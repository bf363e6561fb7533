#include "lockstep/checkpoint/training_state.hpp"

#include <doctest/doctest.h>

#include "checkpoint/checkpoint_testing.hpp"

namespace ls = lockstep;
using lockstep_test::full_state;

TEST_CASE("TrainingState: equal only when everything is") {
  CHECK(full_state() == full_state());
  CHECK(ls::TrainingState{} == ls::TrainingState{});
  const auto differs = [](auto change) {
    ls::TrainingState changed = full_state();
    change(changed);
    return changed != full_state();
  };
  CHECK(differs([](auto& s) { s.scalar = "float64"; }));
  CHECK(differs([](auto& s) { s.signature += "x"; }));
  CHECK(differs([](auto& s) { s.parameters[1].bytes[3] ^= std::byte{1}; }));
  CHECK(differs([](auto& s) { s.parameters[0].extents = {3, 2}; }));
  CHECK(differs([](auto& s) { s.state[0].name = "other"; }));
  CHECK(differs([](auto& s) { s.slots.clear(); }));
  CHECK(differs([](auto& s) { ++s.iterations; }));
  CHECK(differs([](auto& s) { s.learning_rate = 0.2; }));
  CHECK(differs([](auto& s) { s.previous_learning_rate = 0.3; }));
  CHECK(differs([](auto& s) { ++s.seed; }));
  CHECK(differs([](auto& s) { ++s.fit; }));
  CHECK(differs([](auto& s) { ++s.epoch; }));
  CHECK(differs([](auto& s) { ++s.step; }));
  CHECK(differs([](auto& s) { ++s.data_iteration; }));
  CHECK(differs([](auto& s) { ++s.data_position; }));
  CHECK(differs([](auto& s) { ++s.world_size; }));
  CHECK(differs([](auto& s) { s.running.push_back(0); }));
  CHECK(differs([](auto& s) { ++s.global_batch; }));
  CHECK(differs([](auto& s) { s.is_epoch_open = false; }));
  CHECK(differs([](auto& s) { ++s.samples; }));
  CHECK(differs([](auto& s) { ++s.samples_checksum; }));
  CHECK(differs([](auto& s) { ++s.epoch_steps; }));
  CHECK(differs([](auto& s) { s.pipeline += "x"; }));
  CHECK(differs([](auto& s) { s.class_weight.push_back(1); }));
  CHECK(differs([](auto& s) { s.callbacks[1].put("new", 1); }));
  CHECK(differs([](auto& s) { s.objects.clear(); }));
}
