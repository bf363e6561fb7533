#include "lockstep/callbacks/lambda_callback.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/callback_list.hpp"

namespace ls = lockstep;
using lockstep_test::FakeTraining;

namespace {

// A function with other arguments is refused where it is given.
static_assert(!std::is_constructible_v<ls::LambdaHook<int>, void (*)(std::string)>);
static_assert(
    !std::is_constructible_v<ls::LambdaHook<int, ls::Logs&>, void (*)(ls::Training&, int)>);

// An exception of its functions is told with the place where they were called.
static_assert(!ls::detail::says_where<ls::LambdaCallback>);
static_assert(ls::detail::says_where<ls::BackupAndRestore>);

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE(
    "LambdaCallback: each hook calls its function, with all arguments, without Training, or with "
    "none") {
  std::vector<std::string> calls;
  const auto note = [&](const std::string& call) { calls.push_back(call); };
  ls::LambdaCallback callback{
      .on_epoch_begin = [&](int epoch) { note("epoch_begin " + std::to_string(epoch)); },
      .on_epoch_end =
          [&](ls::Training& training, int, ls::Logs& logs) {
            logs.set("rate", training.learning_rate());
            note("epoch_end");
          },
      .on_train_begin = [&] { note("train_begin"); },
      .on_train_end =
          [&](ls::Logs& logs) { note("train_end " + std::to_string(logs.contains("rate"))); },
      .on_train_batch_begin =
          [&](ls::Training&, std::int64_t batch) { note("batch_begin " + std::to_string(batch)); },
      .on_train_batch_end = [&](std::int64_t batch,
                                ls::Logs&) { note("batch_end " + std::to_string(batch)); },
      .on_train_batch_complete = [&] { note("batch_complete"); },
      .on_epoch_complete = [&] { note("epoch_complete"); },
      .on_preemption = [&] { note("preemption"); },
      .on_train_abort = [&] { note("train_abort"); },
      .on_test_begin = [&] { note("test_begin"); },
      .on_test_end = [&] { note("test_end"); },
      .on_test_batch_begin = [&] { note("test_batch_begin"); },
      .on_test_batch_end = [&] { note("test_batch_end"); },
      .on_predict_begin = [&] { note("predict_begin"); },
      .on_predict_end = [&] { note("predict_end"); },
      .on_predict_batch_begin = [&] { note("predict_batch_begin"); },
      .on_predict_batch_end =
          [&](std::int64_t batch) { note("predict_batch_end " + std::to_string(batch)); }};
  ls::CallbackList list(callback);
  FakeTraining training;
  ls::Logs logs;
  list.on_train_begin(training);
  list.on_epoch_begin(training, 4);
  list.on_train_batch_begin(training, std::int64_t{5'000'000'000});
  list.on_train_batch_end(training, std::int64_t{6}, logs);
  list.on_train_batch_complete(training, std::int64_t{6});
  list.on_test_begin(training);
  list.on_test_batch_begin(training, std::int64_t{0});
  list.on_test_batch_end(training, std::int64_t{0}, logs);
  list.on_test_end(training, logs);
  list.on_epoch_end(training, 4, logs);
  list.on_epoch_complete(training, 4);
  list.on_preemption(training);
  list.on_train_abort(training);
  list.on_train_end(training, logs);
  list.on_predict_begin(training);
  list.on_predict_batch_begin(training, std::int64_t{7});
  list.on_predict_batch_end(training, std::int64_t{7});
  list.on_predict_end(training);
  CHECK(logs.at("rate") == 0.1);
  CHECK(calls ==
        std::vector<std::string>{"train_begin", "epoch_begin 4", "batch_begin 5000000000",
                                 "batch_end 6", "batch_complete", "test_begin", "test_batch_begin",
                                 "test_batch_end", "test_end", "epoch_end", "epoch_complete",
                                 "preemption", "train_abort", "train_end 1", "predict_begin",
                                 "predict_batch_begin", "predict_batch_end 7", "predict_end"});
}

TEST_CASE("LambdaCallback: hooks that are not given do nothing and cost nothing") {
  FakeTraining training;
  ls::Logs logs;
  ls::LambdaCallback empty, at_epochs{.on_epoch_end = [] {}},
      at_batches{.on_train_batch_end = [] {}};
  ls::CallbackList nothing(empty);
  nothing.on_train_begin(training);
  nothing.on_epoch_end(training, 0, logs);
  CHECK_FALSE(nothing.has().epoch_end);
  CHECK_FALSE(nothing.has().train_batch_begin);
  CHECK_FALSE(nothing.has().train_batch_end);
  CHECK_FALSE(nothing.has().train_batch_complete);
  CHECK_FALSE(nothing.has().stop_in_batch);

  ls::CallbackList epochs(empty, at_epochs);
  CHECK(epochs.has().epoch_end);
  CHECK_FALSE(epochs.has().stop_in_batch);
  ls::CallbackList batches(at_epochs, at_batches);
  CHECK(batches.has().epoch_end);
  CHECK(batches.has().train_batch_end);
  CHECK(batches.has().stop_in_batch);
  std::optional<ls::LambdaCallback> none;
  CHECK_FALSE(ls::CallbackList(none, at_epochs).has().train_batch_complete);
}

TEST_CASE("LambdaCallback: what its functions remember is saved and restored, where they say how") {
  int seen = 3;
  ls::LambdaCallback counts{
      .on_epoch_end = [&] { ++seen; },
      .save = [&](ls::State& state) { state.put("seen", seen); },
      .restore = [&](const ls::State& state) { seen = state.get<int>("seen"); }},
      forgets{.on_epoch_end = [] {}};
  const std::vector<ls::State> saved = ls::CallbackList(counts, forgets).save();
  CHECK(saved.size() == 1);
  seen = 0;
  ls::CallbackList(counts, forgets).restore(saved);
  CHECK(seen == 3);
}

TEST_SUITE_END();
