#include "lockstep/callbacks/concepts.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/callbacks/backup_and_restore.hpp"

namespace ls = lockstep;

namespace {

// A callback for each hook.
struct TrainBegin {
  void on_train_begin(ls::Training&);
};
struct TrainEnd {
  void on_train_end(ls::Training&, ls::Logs&);
};
struct EpochBegin {
  void on_epoch_begin(ls::Training&, int);
};
struct EpochEnd {
  void on_epoch_end(ls::Training&, int, ls::Logs&);
};
struct EpochComplete {
  void on_epoch_complete(ls::Training&, int);
};
struct BatchBegin {
  void on_train_batch_begin(ls::Training&, std::int64_t);
};
struct BatchEnd {
  void on_train_batch_end(ls::Training&, std::int64_t, ls::Logs&);
};
struct BatchComplete {
  void on_train_batch_complete(ls::Training&, std::int64_t);
};
struct TestBegin {
  void on_test_begin(ls::Training&);
};
struct TestEnd {
  void on_test_end(ls::Training&, ls::Logs&);
};
struct TestBatchBegin {
  void on_test_batch_begin(ls::Training&, std::int64_t);
};
struct TestBatchEnd {
  void on_test_batch_end(ls::Training&, std::int64_t, ls::Logs&);
};
struct PredictBegin {
  void on_predict_begin(ls::Training&);
};
struct PredictEnd {
  void on_predict_end(ls::Training&);
};
struct PredictBatchBegin {
  void on_predict_batch_begin(ls::Training&, std::int64_t);
};
struct PredictBatchEnd {
  void on_predict_batch_end(ls::Training&, std::int64_t);
};
template <class... C>
concept AllCallbacks = (ls::Callback<C> && ...);
static_assert(AllCallbacks<TrainBegin, TrainEnd, EpochBegin, EpochEnd, EpochComplete, BatchBegin,
                           BatchEnd, BatchComplete>);
static_assert(AllCallbacks<TestBegin, TestEnd, TestBatchBegin, TestBatchEnd, PredictBegin,
                           PredictEnd, PredictBatchBegin, PredictBatchEnd>);
static_assert(ls::Callback<ls::BackupAndRestore> && ls::Callback<const ls::BackupAndRestore>);

// Other spellings of a hook.
struct Inherited : EpochEnd {};
struct Constant {
  void on_epoch_end(ls::Training&, int, const ls::Logs&) const;
};
struct Template {
  void on_epoch_end(auto& training, auto epoch, auto& logs);
};
struct Overloaded {
  void on_epoch_end(ls::Training&, int, ls::Logs&);
  void on_epoch_end(int);
};
struct FunctionObject {
  std::function<void(ls::Training&, int, ls::Logs&)> on_epoch_end;
};
struct Final final {
  void on_epoch_end(ls::Training&, int, ls::Logs&);
};
struct StaticMember {
  static void on_epoch_end(ls::Training&, int, ls::Logs&);
};
static_assert(AllCallbacks<Inherited, Constant, const Constant, Template, Overloaded,
                           FunctionObject, Final, StaticMember>);

// Near misses: no hook at all, ...
struct Nothing {};
struct Other {
  void run(ls::Training&);
};
static_assert(!ls::HookedCallback<Nothing> && !ls::HookedCallback<Other> && !ls::Callback<Nothing>);
static_assert(!ls::Callback<int> && !ls::Callback<void (*)(ls::Training&)> &&
              !ls::Callback<std::string>);

// ... a hook with the wrong arguments, also beside a right one, ...
struct NoTraining : TrainBegin {
  void on_epoch_end(int, ls::Logs&);
};
struct NoLogs : TrainBegin {
  void on_epoch_end(ls::Training&, int);
};
struct LogsAreMoved : TrainBegin {
  void on_epoch_end(ls::Training&, int, ls::Logs&&);
};
struct EpochBeginWithLogs : TrainBegin {
  void on_epoch_begin(ls::Training&, int, ls::Logs&);
};
struct TrainingIsCopied : TrainBegin {
  void on_train_end(int);
};
struct EpochAsText : TrainBegin {
  void on_epoch_begin(ls::Training&, std::string);
};
class PrivateHook {
  void on_epoch_end(ls::Training&, int, ls::Logs&);

 public:
  void on_train_begin(ls::Training&);
};
struct NotAFunction : TrainBegin {
  int on_epoch_end = 0;
};
struct FinalNoLogs final : TrainBegin {
  void on_epoch_end(ls::Training&, int);
};
template <class... C>
concept NoneHasCorrectHooks = (!ls::CorrectHooks<C> && ...);
static_assert(
    NoneHasCorrectHooks<NoTraining, NoLogs, LogsAreMoved, EpochBeginWithLogs, TrainingIsCopied>);
static_assert(NoneHasCorrectHooks<EpochAsText, PrivateHook, NotAFunction, FinalNoLogs>);
static_assert(NoneHasCorrectHooks<const EpochEnd> && !ls::Callback<const EpochEnd>);

// ... a name that is nearly a hook's, also beside a right one, ...
struct OtherVerb : TrainBegin {
  void on_epoch_start(ls::Training&, int);
};
struct LightningName : TrainBegin {
  void on_train_batch_start(ls::Training&, std::int64_t);
};
struct KerasOneName : TrainBegin {
  void on_batch_end(ls::Training&, std::int64_t, ls::Logs&);
};
struct Overloads : TrainBegin {
  void on_validation_end(int);
  void on_validation_end(ls::Training&);
};
static_assert(NoneHasCorrectHooks<OtherVerb, LightningName, KerasOneName, Overloads>);

// ... state that would silently not be saved or not be restored.
struct Saves : EpochEnd {
  void save(ls::State&) const;
  void restore(const ls::State&);
};
static_assert(ls::Callback<Saves>);
struct SavesOnly : EpochEnd {
  void save(ls::State&) const;
};
struct RestoresOnly : EpochEnd {
  void restore(const ls::State&);
};
struct SaveIsNotConst : EpochEnd {
  void save(ls::State&);
  void restore(const ls::State&);
};
struct SaveReturnsTheState : EpochEnd {
  ls::State save() const;
  void restore(const ls::State&);
};
struct RestoreWantsToChange : EpochEnd {
  void save(ls::State&) const;
  void restore(ls::State&);
};
struct SaveIsAFlag : EpochEnd {
  bool save = false;
};
static_assert(!ls::RestorableCallback<SavesOnly> && !ls::Callback<SavesOnly>);
static_assert(!ls::RestorableCallback<RestoresOnly>);
static_assert(!ls::RestorableCallback<SaveIsNotConst>);
static_assert(!ls::RestorableCallback<SaveReturnsTheState>);
static_assert(!ls::RestorableCallback<RestoreWantsToChange>);
static_assert(!ls::RestorableCallback<SaveIsAFlag>);

}  // namespace

TEST_CASE("Callback accepts a user's own types and refuses near misses") {}  // at compile time
