// evaluate: its pass over a dataset, in which fit validates too, and its hooks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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
  /// `place`: what messages call the pass.
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

/// Evaluates `data` from its beginning, for at most `steps` batches. Ranks may have different
/// numbers of batches: they meet once, at the end. The first replica of a process has `hooks`, the
/// others null. `where` names the pass for the chief's warning when the data end earlier; empty: no
/// warning. Returns the sums over all ranks.
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

}}}  // namespace lockstep::detail
