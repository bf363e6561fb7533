// One pass over a dataset in inference: evaluate and validation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/training/hook_errors.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The chief's warning that there were fewer batches than requested.
[[gnu::cold]] inline void warn_of_missing_steps(std::string_view where, std::int64_t made,
                                                const std::optional<std::int64_t>& wanted) {
  if (wanted && made < *wanted)
    log_warning(concat({where, ": the data ran out after ", made, " of ", *wanted,
                        " batches; use repeat() for more data"}));
}

/// Calls the on_test_* hooks, and draws a progress bar when there is one.
template <class T>
class TestHooks {
 public:
  /// `place`: that of the pass.
  TestHooks(Training& training, const Program<T>& program, CallbackHooks& callbacks,
            const Activity& place, ProgressBar* progress = nullptr)
      : training_(training),
        program_(program),
        callbacks_(callbacks),
        place_(place),
        progress_(progress) {}

  void begin() {
    call_hooks(callbacks_, place_, [&] { callbacks_.on_test_begin(training_); });
  }
  void batch_begin(std::int64_t batch) {
    call_hooks(callbacks_, at(batch), [&] { callbacks_.on_test_batch_begin(training_, batch); });
  }
  void batch_end(std::int64_t batch, const StatusBlock& status) {
    report(program_, status, logs_);
    call_hooks(callbacks_, at(batch),
               [&] { callbacks_.on_test_batch_end(training_, batch, logs_); });
    if (progress_ != nullptr) progress_->update(batch + 1, logs_);
  }
  void end(const StatusBlock& status) {
    report(program_, status, logs_);
    call_hooks(callbacks_, place_, [&] { callbacks_.on_test_end(training_, logs_); });
    if (progress_ != nullptr) progress_->end_epoch(logs_);
  }

 private:
  [[nodiscard]] Activity at(std::int64_t batch) const {
    Activity place = place_;
    place.step = batch;
    return place;
  }

  Training& training_;
  const Program<T>& program_;
  CallbackHooks& callbacks_;
  Activity place_;
  ProgressBar* progress_;
  Logs logs_;
};

/// Evaluates `data` from its beginning, for at most `steps` batches. The ranks need not have
/// equally many batches: they meet once, at the end. The first replica of a process has `hooks`,
/// the others null. `where` names the pass for the chief's warning when the data end earlier;
/// empty: no warning. Returns the sums over all ranks.
template <class T>
StatusBlock evaluate_pass(const Parts<T>& parts, BatchLoader<T>& data,
                          const std::optional<std::int64_t>& steps, TestHooks<T>* hooks,
                          std::string_view where = {}) {
  AnyReplica& replica = parts.replica;
  StatusBlock status(parts.program.layout().metric_state);
  replica.team_lead([&] { hooks->begin(); });
  data.begin({.seed = parts.variables.seed, .number = 0});
  std::int64_t step = 0;
  for (; (!steps || step < *steps) && data.next(); ++step) {
    if (hooks != nullptr) hooks->batch_begin(step);
    test_step(parts, data, status);
    if (hooks != nullptr) hooks->batch_end(step, status);
  }
  if (replica.collective().rank() == 0 && !where.empty()) warn_of_missing_steps(where, step, steps);
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  replica.team_lead([&] { hooks->end(status); });
  return status;
}

/// Calls the on_predict_batch_* hooks.
class PredictHooks {
 public:
  /// `place`: that of the pass.
  PredictHooks(Training& training, CallbackHooks& callbacks, const Activity& place)
      : training_(training), callbacks_(callbacks), place_(place) {}

  void batch_begin(std::int64_t batch) {
    place_.step = batch;
    call_hooks(callbacks_, place_, [&] { callbacks_.on_predict_batch_begin(training_, batch); });
  }
  void batch_end(std::int64_t batch) {
    call_hooks(callbacks_, place_, [&] { callbacks_.on_predict_batch_end(training_, batch); });
  }

 private:
  Training& training_;
  CallbackHooks& callbacks_;
  Activity place_;
};

/// Predicts `data` (sharded by AutoShardPolicy::data) from its beginning, for at most `steps`
/// batches, and appends the rows of all ranks to `rows`, in the order of the dataset. The first
/// replica of a process has `rows` and `hooks`, the others pass null pointers and only take part.
/// Returns the number of batches.
template <class T>
std::int64_t predict_pass(const Parts<T>& parts, BatchLoader<T>& data,
                          const std::optional<std::int64_t>& steps, std::vector<T>* rows,
                          PredictHooks* hooks) {
  const std::size_t outputs = parts.program.layout().outputs;
  const std::size_t positions = parts.program.layout().positions;
  const std::size_t columns = positions * outputs;
  AnyCollective& collective = parts.replica.collective();
  const auto ranks = static_cast<std::size_t>(collective.size());
  std::vector<T> mine, all;
  data.begin({.seed = parts.variables.seed, .number = 0});
  std::int64_t step = 0;
  for (; (!steps || step < *steps) && data.next(); ++step) {
    if (hooks != nullptr) hooks->batch_begin(step);
    forward_batch(parts, data, true);
    // The largest part has rank 0; the gathered parts are padded to it.
    const std::size_t batch = data.batch_size();
    const std::size_t largest = (batch + ranks - 1) / ranks;
    mine.assign(largest * columns, T(0));
    const auto y = parts.workspace.predictions();
    for (std::size_t row = 0; row < y.samples(); ++row)  // those of a sample one after the other
      for (std::size_t f = 0; f < outputs; ++f) mine[row * outputs + f] = y(row, f);
    all.resize(ranks * mine.size());
    collective.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    if (rows == nullptr) continue;
    for (std::size_t position = 0; position < batch; ++position) {
      const T* const row = all.data() + ((position % ranks) * largest + position / ranks) * columns;
      rows->insert(rows->end(), row, row + columns);
    }
    hooks->batch_end(step);
  }
  return step;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
