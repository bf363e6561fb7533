#include "lockstep/training/position.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/step/status_block.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;
using Status = ls::detail::StatusBlock;
using Position = ls::detail::TrainingPosition;

constexpr std::size_t metric_state = 2;

TEST_CASE("training position: what is saved comes back") {
  Status sums(metric_state);
  sums[Status::samples] = 64;
  sums[Status::rows] = 64;
  Position position{.epoch = 3,
                    .step = 5,
                    .data_iteration = 2,
                    .data_position = 17,
                    .batch = 32,
                    .is_epoch_open = true};
  position.keep(sums);
  ls::TrainingState saved;
  position.save(saved);
  const Position taken = Position::take(saved, metric_state);
  CHECK(taken.epoch == 3);
  CHECK(taken.step == 5);
  CHECK(taken.data_iteration == 2);
  CHECK(taken.data_position == 17);
  CHECK(taken.batch == 32);
  CHECK(taken.running == position.running);
  CHECK(taken.is_epoch_open);
}

TEST_CASE("training position: the end, and sums of other metrics") {
  Position position{.epoch = 2};
  CHECK_FALSE(position.has_ended());
  position.set_ended(metric_state);
  CHECK(position.has_ended());
  position.step = 1;  // in the middle of an epoch that all have agreed to end
  CHECK_FALSE(position.has_ended());

  ls::TrainingState saved;
  saved.running.resize(Status(metric_state).values().size() + 1);
  CHECK_THROWS_WITH_AS((void)Position::take(saved, metric_state),
                       "fit: the saved state has other metrics than this program",
                       ls::ConfigurationError);
}

TEST_CASE("training position: numbers that no training has are refused") {
  const auto refusal = [](std::int64_t batch, std::int64_t position, double samples) {
    Position wrong{.data_position = position, .batch = batch};
    Status sums(metric_state);
    sums[Status::samples] = samples;
    sums[Status::rows] = samples;
    sums[Status::loss_sum] = NAN;  // of a training that goes wrong
    wrong.keep(sums);
    ls::TrainingState saved;
    wrong.save(saved);
    return message_of<ls::DataError>([&] { (void)Position::take(saved, metric_state); });
  };
  CHECK(refusal(64, 10, 640) == "NO EXCEPTION");
  CHECK(
      contains(refusal(-1, 10, 640), "the number of samples in a global batch is -1, expected 0"));
  CHECK(contains(refusal(std::int64_t{1} << 40, 10'000, 640),
                 "data_position is 10000, expected 0 to 8192"));
  CHECK(contains(refusal(64, 10, -1), "the running sum 0 is -1, expected a count"));
  CHECK(contains(refusal(64, 10, NAN), "the running sum 0 is nan"));
}
