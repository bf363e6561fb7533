#include "lockstep/callbacks/hook_site.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "lockstep/callbacks/terminate_on_nan.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/type_name.hpp"

namespace ls = lockstep;

namespace {

struct SaveImages {};  // a program's own callback

/// A list of callbacks, whose hooks the test is.
struct Site : ls::detail::HookSite {
  using HookSite::call;
};

const ls::Activity in_epoch{.call = "fit", .part = nullptr, .epoch = 2};

/// Calls a hook that throws.
template <class Callback>
void fail(Site& site, const char* part) {
  CHECK_THROWS_AS(site.call(part, ls::detail::is_own_type<Callback>,
                            [] { throw std::runtime_error("disk full"); }),
                  std::runtime_error);
}

}  // namespace

TEST_CASE(
    "HookSite: during a hook the board has its place and its name, afterwards what it had before") {
  ls::ActivityBoard board;
  board.set({.call = "fit"});
  Site site;
  site.report_to(&board);
  site.enter(in_epoch);
  int calls = 0;
  site.call("on_epoch_end of SaveImages", false, [&] {
    ++calls;
    CHECK(ls::to_string(board.get()) == "fit, epoch 3, on_epoch_end of SaveImages");
  });
  CHECK(calls == 1);
  CHECK(board.get() == ls::Activity{.call = "fit"});
  fail<SaveImages>(site, "on_epoch_end of SaveImages");
  CHECK(board.get() == ls::Activity{.call = "fit"});
}

TEST_CASE("HookSite: without a board hooks are called all the same") {
  ls::ActivityBoard board;
  Site site;
  int calls = 0;
  site.call("on_train_begin of SaveImages", false, [&] { ++calls; });
  site.report_to(&board);
  site.report_to(nullptr);
  site.call("on_train_begin of SaveImages", false, [&] {
    ++calls;
    CHECK(board.get() == ls::Activity{});
  });
  CHECK(calls == 2);
}

TEST_CASE("HookSite: knows the program's hook that threw, until the next hook") {
  Site site;
  site.enter(in_epoch);
  CHECK_FALSE(site.failed_hook().has_value());
  fail<SaveImages>(site, "on_epoch_end of SaveImages");
  REQUIRE(site.failed_hook().has_value());
  CHECK(ls::to_string(*site.failed_hook()) == "fit, epoch 3, on_epoch_end of SaveImages");
  site.call("on_epoch_end of SaveImages", false, [] {});
  CHECK_FALSE(site.failed_hook().has_value());
}

TEST_CASE("HookSite: the library's own callbacks put their names into their messages themselves") {
  Site site;
  fail<SaveImages>(site, "on_epoch_end of SaveImages");
  fail<ls::TerminateOnNaN>(site, "on_train_batch_end of TerminateOnNaN");
  CHECK_FALSE(site.failed_hook().has_value());
}
