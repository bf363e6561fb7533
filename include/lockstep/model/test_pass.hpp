// One pass over a dataset in inference: evaluate and validation.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/model/steps.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  TestHooks(Training& training, const Compiled& compiled, Callbacks& callbacks, ProgressBar* progress = nullptr)
      : training_(training), compiled_(compiled), callbacks_(callbacks), progress_(progress) {}

  void begin() { callbacks_.on_test_begin(training_); }
  void batch_begin(std::int64_t batch) { callbacks_.on_test_batch_begin(training_, batch); }
  void batch_end(std::int64_t batch, const typename Compiled::Status& status) {
    compiled_.report(status, logs_);
    callbacks_.on_test_batch_end(training_, batch, logs_);
    if (progress_ != nullptr) progress_->update(batch + 1, logs_);
  }
  void end(const typename Compiled::Status& status) {
    compiled_.report(status, logs_);
    callbacks_.on_test_end(training_, logs_);
    if (progress_ != nullptr) progress_->end_epoch(logs_);
  }

 private:
  Training& training_;
  const Compiled& compiled_;
  Callbacks& callbacks_;
  ProgressBar* progress_;
  Logs logs_;
};

/// Evaluates `data` from its beginning, for at most `steps` batches. The ranks need not have equally many batches: they meet
/// once, at the end. Returns the sums over all ranks.
template <class Compiled, Replica R, class Hooks>
typename Compiled::Status test_pass(const Compiled& compiled, typename Compiled::Replica& own, R& replica,
                                    BatchLoader<typename Compiled::Scalar>& data, std::optional<std::int64_t> steps,
                                    Hooks hooks) {
  typename Compiled::Status status;
  hooks.begin();
  replica.team_barrier();  // a callback may have changed the parameters
  data.begin({.seed = compiled.state.seed, .number = 0});
  for (std::int64_t step = 0; (!steps || step < *steps) && data.next(); ++step) {
    hooks.batch_begin(step);
    test_step(compiled, own, replica, data, status);
    hooks.batch_end(step, status);
  }
  replica.collective().all_reduce(status.values(), ReduceOp::sum);
  hooks.end(status);
  return status;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
