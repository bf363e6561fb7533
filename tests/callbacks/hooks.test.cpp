#include "lockstep/callbacks/hooks.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/core/activity.hpp"

namespace ls = lockstep;
using lockstep_test::FakeTraining;
using Presence = ls::CallbackHooks::Presence;

namespace {

struct Function {
  void on_epoch_end();
};
struct Overloaded {
  void on_epoch_end();
  void on_epoch_end(int);
};
struct Template {
  template <class T>
  void on_epoch_end(T);
};
struct Data {
  int on_epoch_end;
};
struct Type {
  struct on_epoch_end {};
};
struct Inherited : Overloaded {};
class Private {
  void on_epoch_end();
};
struct Final final {
  void on_epoch_end();
};
struct None {
  void on_epoch_ending();
};
union Union {
  int on_epoch_end;
};

static_assert(ls::detail::has_on_epoch_end<Function>() &&
              ls::detail::has_on_epoch_end<Overloaded>());
static_assert(ls::detail::has_on_epoch_end<Template>() && ls::detail::has_on_epoch_end<Data>());
static_assert(ls::detail::has_on_epoch_end<Type>() && ls::detail::has_on_epoch_end<Inherited>());
static_assert(ls::detail::has_on_epoch_end<Private>() && ls::detail::has_on_epoch_end<Final>());
static_assert(ls::detail::has_on_epoch_end<const Function>());
static_assert(!ls::detail::has_on_epoch_end<None>() && !ls::detail::has_on_epoch_begin<Function>());
static_assert(!ls::detail::has_on_epoch_end<int>() && !ls::detail::has_on_epoch_end<Union>());
static_assert(!ls::detail::has_on_epoch_end<decltype([] {})>());

struct Several {
  void on_epoch_end(ls::Training&, int, ls::Logs&);
  void on_epoch_begin(int);
};
static_assert(ls::detail::has_hook<Several>() && !ls::detail::hooks_are_callable<Several>());
static_assert(!ls::detail::has_hook<None>() && ls::detail::hooks_are_callable<None>());
static_assert(!ls::detail::has_near_miss<Several>());
struct NearMiss : Several {
  void on_step_end();
};
static_assert(ls::detail::has_near_miss<NearMiss>());

}  // namespace

TEST_CASE("hooks are found by name, whatever kind of member they are") {}  // at compile time

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

namespace {

struct Counts {
  int epochs = 0;
  void on_epoch_end(ls::Training&, int, ls::Logs&) { ++epochs; }
  void save(ls::State& state) const { state.put("epochs", epochs); }
  void restore(const ls::State& state) { epochs = state.get<int>("epochs"); }
};

/// What the training loop knows of callbacks: no type of theirs.
void make_epochs(ls::CallbackHooks& callbacks, ls::Training& training, int epochs) {
  for (int epoch = 0; epoch < epochs; ++epoch) {
    ls::Logs logs;
    callbacks.on_epoch_begin(training, epoch);
    callbacks.on_epoch_end(training, epoch, logs);
  }
}

static_assert(std::is_abstract_v<ls::CallbackHooks> &&
              !std::is_copy_constructible_v<ls::CallbackHooks>);
// It is no way to own callbacks: CallbackList owns none, so that nothing is deleted through it.
static_assert(!std::is_destructible_v<ls::CallbackHooks>);

}  // namespace

TEST_CASE("CallbackHooks: code that does not know a callback's type calls, saves and restores it") {
  FakeTraining training;
  Counts counts, others;
  ls::CallbackList list(counts);
  ls::CallbackHooks& hooks = list;
  make_epochs(hooks, training, 3);
  CHECK(counts.epochs == 3);
  CHECK(hooks.has().epoch_end);
  CHECK_FALSE(hooks.has().in_step());
  ls::CallbackList same(others);
  static_cast<ls::CallbackHooks&>(same).restore(hooks.save());
  CHECK(others.epochs == 3);
}

TEST_CASE("CallbackHooks: what either list has, and whether a step calls any") {
  const std::vector<bool Presence::*> all = {
      &Presence::train_batch_begin, &Presence::train_batch_end, &Presence::train_batch_complete,
      &Presence::stop_in_batch,     &Presence::epoch_end,       &Presence::train_end,
      &Presence::complete_state};
  CHECK(all.size() == sizeof(Presence));  // one more field is one more here, and in operator|
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    Presence one;
    one.*all[i] = true;
    CHECK(one.in_step() == (i < 3));
    for (std::size_t j = 0; j < all.size(); ++j) {
      CHECK((one | Presence{}).*all[j] == (i == j));
      CHECK((Presence{} | one).*all[j] == (i == j));
    }
  }
}
