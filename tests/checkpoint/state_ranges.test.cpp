#include "lockstep/checkpoint/state_ranges.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::full_state;
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
