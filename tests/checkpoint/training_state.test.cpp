#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "checkpoint/checkpoint_testing.hpp"
#include "support/model_testing.hpp"

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

using lockstep_test::contains;
using lockstep_test::message_of;

namespace {

/// The error for a file with a changed state and correct checksums.
std::string refusal(const std::function<void(ls::TrainingState&)>& change) {
  ls::TrainingState state = full_state();
  change(state);
  return message_of<ls::DataError>(
      [&] { (void)ls::decode_checkpoint(ls::encode_checkpoint(state)); });
}

}  // namespace

TEST_CASE("check_ranges: the states of trainings pass") {
  ls::check_ranges({});
  ls::check_ranges(full_state());
  ls::TrainingState last = full_state();
  last.epoch = std::numeric_limits<int>::max() - 1;
  last.step = last.iterations = last.data_position = last.data_iteration = std::int64_t{1} << 53;
  last.running = {NAN, INFINITY};  // of a training that goes wrong
  ls::check_ranges(last);
}

TEST_CASE(
    "check_ranges: a number out of range is refused although the checksum is right, and named with "
    "its range") {
  using State = ls::TrainingState;
  CHECK(contains(refusal([](State& s) { s.epoch = -5; }), "epoch is -5, expected 0 to 2147483646"));
  CHECK(contains(refusal([](State& s) { s.epoch = std::int64_t{1} << 32; }),
                 "epoch is 4294967296, expected 0"));
  CHECK(contains(refusal([](State& s) { s.step = -1; }),
                 "step is -1, expected 0 to 9007199254740992"));
  CHECK(contains(refusal([](State& s) { s.iterations = std::numeric_limits<std::int64_t>::max(); }),
                 "iterations is"));
  CHECK(contains(refusal([](State& s) { s.iterations = -1; }), "iterations is -1"));
  CHECK(contains(refusal([](State& s) { s.data_iteration = -1; }), "data_iteration is -1"));
  CHECK(contains(refusal([](State& s) { s.data_position = -3; }), "data_position is -3"));
  CHECK(contains(refusal([](State& s) { s.world_size = 0; }), "world_size is 0, expected 1"));
  CHECK(contains(refusal([](State& s) { s.learning_rate = NAN; }), "learning_rate is nan"));
  CHECK(contains(refusal([](State& s) { s.learning_rate = -INFINITY; }), "learning_rate is -inf"));
  CHECK(contains(refusal([](State& s) { s.previous_learning_rate = -1; }),
                 "previous_learning_rate is -1"));
  CHECK(contains(refusal([](State& s) { s.accumulated_steps = -1; }), "accumulated_steps is -1"));
  CHECK(contains(refusal([](State& s) { s.accumulated_rows = NAN; }), "accumulated_rows is nan"));
  CHECK(contains(refusal([](State& s) { s.previous_learning_rate = NAN; }),
                 "previous_learning_rate is nan"));
}
