#include "lockstep/core/activity.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/config.hpp"

namespace ls = lockstep;

TEST_CASE("An activity names the call, the place in training and the part") {
  CHECK(ls::to_string(ls::Activity{}) == "no call");
  CHECK(ls::to_string(ls::Activity{.call = "load"}) == "load");
  CHECK(ls::to_string({.call = "fit", .part = "on_epoch_end of Saver", .epoch = 2}) ==
        "fit, epoch 3, on_epoch_end of Saver");
  CHECK(ls::to_string({.call = "fit", .part = nullptr, .epoch = 0, .step = 16}) ==
        "fit, epoch 1, step 17");
}

TEST_CASE("A scope puts the former activity back, also after an exception") {
  ls::ActivityBoard board;
  board.set({.call = "fit", .part = nullptr, .epoch = 1});
  try {
    const ls::ActivityScope scope(&board, {.call = "predict"});
    CHECK(board.get() == ls::Activity{.call = "predict"});
    throw 1;
  } catch (int) {
  }
  CHECK(board.get().epoch == 1);
  const ls::ActivityScope none(nullptr, {.call = "predict"});
}
