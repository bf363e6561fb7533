#include "lockstep/callbacks/callback_hooks.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "lockstep/callbacks/callback_list.hpp"

namespace ls = lockstep;
using lockstep_test::FakeTraining;
using Presence = ls::CallbackHooks::Presence;

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
