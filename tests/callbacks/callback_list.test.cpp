#include "lockstep/callbacks/callback_list.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;
using lockstep_test::Recorder;

namespace {

/// Raises the loss, and counts how often.
struct RaiseLoss {
  double by;
  int calls = 0;
  void on_epoch_end(ls::Training&, int, ls::Logs& logs) {
    logs.set("loss", logs.at("loss") + by);
    ++calls;
  }
  void save(ls::State& state) const { state.put("calls", calls); }
  void restore(const ls::State& state) { calls = state.get<int>("calls"); }
};
struct SeesLoss {
  std::vector<double> seen;
  void on_epoch_end(ls::Training&, int, const ls::Logs& logs) { seen.push_back(logs.at("loss")); }
};

template <class... Callbacks>
constexpr ls::CallbackHooks::Presence presence = ls::CallbackList<Callbacks...>::presence();

static_assert(!presence<>.train_batch_begin && !presence<>.train_batch_end &&
              !presence<>.train_batch_complete && !presence<>.stop_in_batch &&
              !presence<>.epoch_end);
static_assert(!presence<RaiseLoss, SeesLoss>.train_batch_end &&
              presence<RaiseLoss, SeesLoss>.epoch_end);
static_assert(presence<Recorder>.train_batch_begin && presence<Recorder>.train_batch_end &&
              presence<Recorder>.train_batch_complete && presence<Recorder>.stop_in_batch);
static_assert(presence<RaiseLoss, Recorder>.train_batch_begin);

struct NeverStops {
  static constexpr bool stops_training = false;
  void on_train_batch_end(ls::Training&, std::int64_t, ls::Logs&) {}
};
static_assert(presence<NeverStops>.train_batch_end && !presence<NeverStops>.stop_in_batch &&
              !presence<NeverStops>.train_batch_begin && !presence<NeverStops>.epoch_end);
static_assert(presence<NeverStops, Recorder>.stop_in_batch);

}  // namespace

TEST_CASE("CallbackList: calls those that have the hook, in order, with the same logs") {
  FakeTraining training;
  SeesLoss before, after;
  RaiseLoss raise{.by = 2};
  ls::CallbackList list(before, raise, after);
  ls::Logs logs;
  logs.set("loss", 1);
  list.on_epoch_end(training, 0, logs);
  list.on_train_begin(training);  // no callback has it
  list.on_train_batch_end(training, std::int64_t{3}, logs);
  CHECK(before.seen == std::vector<double>{1});
  CHECK(after.seen == std::vector<double>{3});
  CHECK(raise.calls == 1);
  CHECK(logs.at("loss") == 3);
}

TEST_CASE("CallbackList: every hook arrives with its arguments") {
  FakeTraining training;
  Recorder recorder;
  recorder.record_completions = true;
  ls::CallbackList list(recorder);
  ls::Logs logs;
  const std::int64_t batch = 5'000'000'000;
  list.on_train_begin(training);
  list.on_epoch_begin(training, 1);
  list.on_train_batch_begin(training, batch);
  list.on_train_batch_end(training, batch, logs);
  list.on_train_batch_complete(training, batch);
  list.on_test_begin(training);
  list.on_test_batch_begin(training, batch);
  list.on_test_batch_end(training, batch, logs);
  list.on_test_end(training, logs);
  list.on_epoch_end(training, 1, logs);
  list.on_epoch_complete(training, 1);
  list.on_train_end(training, logs);
  list.on_predict_begin(training);
  list.on_predict_batch_begin(training, batch);
  list.on_predict_batch_end(training, batch);
  list.on_predict_end(training);
  CHECK(recorder.calls ==
        std::vector<std::string>{
            "train_begin", "epoch_begin 1", "batch_begin 5000000000", "batch_end 5000000000",
            "batch_complete 5000000000", "test_begin", "test_batch_begin 5000000000",
            "test_batch_end 5000000000", "test_end", "epoch_end 1", "epoch_complete 1",
            "train_end without logs", "predict_begin", "predict_batch_begin 5000000000",
            "predict_batch_end 5000000000", "predict_end"});
}

TEST_CASE("CallbackList: saves and restores by position, and asks only those that have state") {
  RaiseLoss first{.by = 1, .calls = 4}, second{.by = 1, .calls = 9};
  SeesLoss stateless;
  const std::vector<ls::State> saved = ls::CallbackList(first, stateless, second).save();
  REQUIRE(saved.size() == 3);
  CHECK(saved[1].empty());

  RaiseLoss new_first{.by = 1}, new_second{.by = 1};
  ls::CallbackList(new_first, stateless, new_second).restore(saved);
  CHECK(new_first.calls == 4);
  CHECK(new_second.calls == 9);
}

TEST_CASE("CallbackList: refuses the states of another list") {
  RaiseLoss callback{.by = 1};
  ls::CallbackList list(callback);
  const std::string message = message_of<ls::ConfigurationError>([&] {
    list.restore({ls::State{}, ls::State{}});
  });
  CHECK(contains(message, "saved state has 2 callbacks, this program has 1"));
  CHECK(ls::CallbackList<>().save().empty());
  ls::State of_another;
  of_another.put("best", 0.5);
  CHECK(contains(message_of<ls::Error>([&] { list.restore({of_another}); }), "no entry 'calls'"));
}

TEST_CASE(
    "CallbackList: an empty optional is no callback, one that holds a callback is that callback") {
  FakeTraining training;
  ls::Logs logs;
  logs.set("loss", 1);
  std::optional<RaiseLoss> none, raise(RaiseLoss{.by = 2});
  SeesLoss sees;
  ls::CallbackList list(none, raise, sees);
  static_assert(!decltype(list)::presence().train_batch_end &&
                presence<std::optional<Recorder>>.train_batch_end);
  CHECK_FALSE(list.has().train_batch_end);
  CHECK(list.has().epoch_end);
  list.on_epoch_end(training, 0, logs);
  CHECK(sees.seen == std::vector<double>{3});
  CHECK(raise->calls == 1);

  const std::vector<ls::State> saved = list.save();
  CHECK(saved.size() == 2);
  RaiseLoss plain{.by = 1};
  ls::CallbackList same(plain, sees);
  same.restore(saved);
  CHECK(plain.calls == 1);
  ls::CallbackList more(plain, raise, sees);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { more.restore(saved); }),
                 "has 2 callbacks, this program has 3"));
}
