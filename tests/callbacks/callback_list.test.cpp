#include "lockstep/callbacks/callback_list.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "lockstep/core/logs.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;
using lockstep_test::Recorder;

namespace somewhere {
struct Callback {};
template <class T>
struct Holder {};
}  // namespace somewhere

TEST_CASE("type_name: the name alone, whatever encloses the type") {
  struct Local {};
  CHECK(ls::detail::type_name<int>() == "int");
  CHECK(ls::detail::type_name<somewhere::Callback>() == "Callback");
  CHECK(ls::detail::type_name<somewhere::Holder<somewhere::Callback>>() ==
        "Holder<somewhere::Callback>");
  CHECK(ls::detail::type_name<Local>() == "Local");
  CHECK(ls::detail::full_type_name<somewhere::Callback>() == "somewhere::Callback");
  static_assert(ls::detail::is_own_type<ls::Logs>);
  static_assert(!ls::detail::is_own_type<somewhere::Callback> &&
                !ls::detail::is_own_type<std::vector<ls::Logs>>);
}

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
struct Keyed {
  std::string key;
  double best = 0;
  void on_epoch_end(ls::Training&, int, ls::Logs&) {}
  std::string state_key() const { return key; }
  void save(ls::State& state) const { state.put("best", best); }
  void restore(const ls::State& state) { best = state.get<double>("best"); }
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

TEST_CASE("CallbackList: a state is that of its callback, wherever that stands in the list") {
  RaiseLoss first{.by = 1, .calls = 4};
  Keyed low{.key = "loss", .best = 1}, high{.key = "accuracy", .best = 2};
  SeesLoss stateless;
  const std::vector<ls::State> saved = ls::CallbackList(first, stateless, low, high).save();
  REQUIRE(saved.size() == 3);
  CHECK(saved[0].get<std::string>("__callback__") == "RaiseLoss");
  CHECK(saved[1].get<std::string>("__callback__") == "Keyed(loss)");

  RaiseLoss new_first{.by = 1};
  Keyed new_low{.key = "loss"}, new_high{.key = "accuracy"};
  CHECK(ls::CallbackList(new_high, new_low, stateless, stateless, new_first).restore(saved) == "");
  CHECK(new_first.calls == 4);
  CHECK(new_low.best == 1);
  CHECK(new_high.best == 2);
}

TEST_CASE(
    "CallbackList: what is new begins afresh, what is missing is dropped, and both are told") {
  RaiseLoss raise{.by = 1, .calls = 4};
  Keyed low{.key = "loss", .best = 1}, auc{.key = "auc", .best = 5};
  const std::vector<ls::State> saved = ls::CallbackList(raise, low).save();
  CHECK(ls::CallbackList(auc, low).restore(saved) ==
        "what the saved training has of RaiseLoss is dropped: no callback of this program has that "
        "type and that key; the saved training has nothing of Keyed(auc), which begins afresh");
  CHECK(auc.best == 5);
  CHECK(ls::CallbackList<>().restore({}) == "");
}

TEST_CASE("CallbackList: a callback may save an entry named callback") {
  struct Names {
    std::string callback;
    void on_epoch_end(ls::Training&, int, ls::Logs&) {}
    void save(ls::State& state) const { state.put("callback", callback); }
    void restore(const ls::State& state) { callback = state.get<std::string>("callback"); }
  } saves{.callback = "mine"}, restored;
  CHECK(ls::CallbackList(restored).restore(ls::CallbackList(saves).save()) == "");
  CHECK(restored.callback == "mine");
}

TEST_CASE("CallbackList: two of one name keep their order") {
  RaiseLoss first{.by = 1, .calls = 4}, second{.by = 1, .calls = 9};
  const std::vector<ls::State> saved = ls::CallbackList(first, second).save();
  RaiseLoss new_first{.by = 1}, new_second{.by = 1};
  CHECK(ls::CallbackList(new_first, new_second).restore(saved) == "");
  CHECK(new_first.calls == 4);
  CHECK(new_second.calls == 9);
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
  CHECK(saved.size() == 1);
  RaiseLoss plain{.by = 1};
  ls::CallbackList same(plain, sees);
  CHECK(same.restore(saved) == "");
  CHECK(plain.calls == 1);
}

TEST_CASE("CallbackList: functions with the names of other frameworks' hooks") {
  struct AfterEpoch {
    void on_epoch_end(ls::Training&, int, ls::Logs&) {}
    void after_epoch(ls::Training&, int, ls::Logs&) {}
  };
  struct BeforeFit final {
    void on_epoch_end(ls::Training&, int, ls::Logs&) {}
    static void before_fit() {}
    int epoch_end = 0;
  };
  struct Data {
    void on_epoch_end(ls::Training&, int, ls::Logs&) {}
    int epoch_end = 0;
  };
  AfterEpoch after;
  BeforeFit before;
  Data data;
  CHECK(ls::CallbackList(after, data, before).other_hooks() ==
        "after_epoch of AfterEpoch, before_fit of BeforeFit");
  CHECK(ls::CallbackList(data).other_hooks().empty());
}
