#include "lockstep/model/training_position.hpp"

#include <doctest/doctest.h>

#include "lockstep/model/status_block.hpp"

namespace ls = lockstep;
using Status = ls::detail::StatusBlock<2>;
using Position = ls::detail::TrainingPosition<Status>;

TEST_CASE("training position: what is saved is taken out again, beside the callbacks' states") {
  Status sums;
  sums[Status::samples] = 64;
  Position position{
      .epoch = 3, .step = 5, .data_iteration = 2, .data_position = 17, .batch = 32, .is_epoch_open = true};
  position.keep(sums);
  ls::TrainingState saved;
  saved.callbacks.emplace_back().put("best", 0.5);
  position.save(saved);
  const Position taken = Position::take(saved);
  CHECK(taken.epoch == 3);
  CHECK(taken.step == 5);
  CHECK(taken.data_iteration == 2);
  CHECK(taken.data_position == 17);
  CHECK(taken.batch == 32);
  CHECK(taken.running == position.running);
  CHECK(taken.is_epoch_open);
  CHECK(saved.callbacks.size() == 1);
  CHECK(saved.callbacks[0].get<double>("best") == 0.5);
}

TEST_CASE("training position: a state without an entry of its own has an unknown batch") {
  ls::TrainingState saved;
  saved.epoch = 1;
  saved.callbacks.emplace_back().put("best", 0.5);
  const Position taken = Position::take(saved);
  CHECK(taken.epoch == 1);
  CHECK(taken.batch == 0);
  CHECK_FALSE(taken.is_epoch_open);
  CHECK(saved.callbacks.size() == 1);
}

TEST_CASE("training position: the end, and sums of other metrics") {
  Position position{.epoch = 2};
  CHECK_FALSE(position.has_ended());
  position.set_ended();
  CHECK(position.has_ended());
  position.step = 1;  // in the middle of an epoch that all have agreed to end
  CHECK_FALSE(position.has_ended());

  ls::TrainingState saved;
  saved.running.resize(Status{}.values().size() + 1);
  CHECK_THROWS_WITH_AS((void)Position::take(saved), "fit: the saved state has other metrics than this program",
                       ls::ConfigurationError);
}
