// One pass over a dataset in inference: evaluate and validation.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/strategies/team_lead.hpp"
#include "lockstep/training/hook_errors.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The chief's warning that there were fewer batches than requested.
[[gnu::cold]] inline void warn_of_missing_steps(std::string_view where, std::int64_t made,
                                                const std::optional<std::int64_t>& wanted) {
  if (wanted && made < *wanted)
    log_line(concat({"warning: ", where, ": the data ran out after ", made, " of ", *wanted,
                     " batches; use repeat() for more data"}));
}

/// For replicas that call no callbacks.
struct NoTestHooks {
  void begin() {}
  void batch_begin(std::int64_t) {}
  void batch_end(std::int64_t, const auto&) {}
  void end(const auto&) {}
};

/// Calls the on_test_* hooks of a CallbackList, and draws a progress bar when there is one.
template <class Compiled, class Callbacks>
class TestHooks {
 public:
  /// `place`: that of the pass.
  TestHooks(Training& training, const Compiled& compiled, Callbacks& callbacks, const Activity& place,
            ProgressBar* progress = nullptr)
      : training_(training), compiled_(compiled), callbacks_(callbacks), place_(place), progress_(progress) {}

  void begin() {
    call_hooks(callbacks_, place_, [&] { callbacks_.on_test_begin(training_); });
  }
  void batch_begin(std::int64_t batch) {
    Activity place = place_;
    place.step = batch;
    call_hooks(callbacks_, place, [&] { callbacks_.on_test_batch_begin(training_, batch); });
  }
  void batch_end(std::int64_t batch, const typename Compiled::Status& status) {
    Activity place = place_;
    place.step = batch;
    compiled_.report(status, logs_);
    call_hooks(callbacks_, place, [&] { callbacks_.on_test_batch_end(training_, batch, logs_); });
    if (progress_ != nullptr) progress_->update(batch + 1, logs_);
  }
  void end(const typename Compiled::Status& status) {
    compiled_.report(status, logs_);
    call_hooks(callbacks_, place_, [&] { callbacks_.on_test_end(training_, logs_); });
    if (progress_ != nullptr) progress_->end_epoch(logs_);
  }

 private:
  Training& training_;
  const Compiled& compiled_;
  Callbacks& callbacks_;
  Activity place_;
  ProgressBar* progress_;
  Logs logs_;
};

/// Evaluates `data` from its beginning, for at most `steps` batches. The ranks need not have
/// equally many batches: they meet once, at the end. The first replica of a process has the hooks.
/// `where` names the pass for the chief's warning when the data end before; empty: no warning.
/// Returns the sums over all ranks.
template <class Compiled, Replica R, class Hooks>
typename Compiled::Status test_pass(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
                                    BatchLoader<typename Compiled::Scalar>& data, std::optional<std::int64_t> steps,
                                    Hooks hooks, std::string_view where = {}) {
  typename Compiled::Status status;
  team_lead(replica, [&] { hooks.begin(); });
  data.begin({.seed = compiled.state.seed, .number = 0});
  std::int64_t step = 0;
  for (; (!steps || step < *steps) && data.next(); ++step) {
    hooks.batch_begin(step);
    test_step(compiled, own, replica, data, status);
    hooks.batch_end(step, status);
  }
  if (replica.collective().rank() == 0 && !where.empty()) warn_of_missing_steps(where, step, steps);
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  team_lead(replica, [&] { hooks.end(status); });
  return status;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
