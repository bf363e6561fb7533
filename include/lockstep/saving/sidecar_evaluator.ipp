#pragma once

#include <thread>
#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/training_end.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/sidecar_evaluator.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Waits between two looks into the folder, up to the timeout.
class CheckpointPoll {
 public:
  explicit CheckpointPoll(const SidecarEvaluatorOptions& options) : options_(options) {}
  void renew() { since_ = Clock::now(); }
  /// Sleeps for poll_interval. Throws Error when the timeout has passed since the last renew.
  void wait() const {
    if (Clock::now() - since_ >= options_.timeout)
      throw Error(concat(
          {"SidecarEvaluator: no new checkpoint in '", options_.checkpoint_dir, "' for ",
           std::chrono::duration<double>(options_.timeout).count(),
           " seconds, and no file there says that training has ended",
           " (as CheckpointManager::finish and ModelCheckpoint do):",
           " check that training is running and writes to this folder, or set a longer timeout"}));
    std::this_thread::sleep_for(options_.poll_interval);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const SidecarEvaluatorOptions& options_;
  Clock::time_point since_ = Clock::now();
};

inline void log_evaluation(const std::string& path, const CheckpointEvaluation& evaluation) {
  std::string text = concat({"evaluated '", path, "' after ", evaluation.iterations, " updates"});
  for (const auto& [name, value] : evaluation.logs) text += concat({" - ", name, ": ", value});
  log_line(text);
}

inline void warn_of_weights_alone(const std::string& path) {
  log_line(concat({"warning: skipping the checkpoint '", path,
                   "': it has weights alone: let ModelCheckpoint save the whole state "
                   "(save_weights_only = false)"}));
}

LOCKSTEP_INLINE EvaluationLoop::EvaluationLoop(SidecarEvaluatorOptions options, int num_workers)
    : options_(std::move(options)), watch_(options_.checkpoint_dir), results_(options_.results) {
  options_.validate();
  if (num_workers != 1)
    throw ConfigurationError(
        "SidecarEvaluator: evaluates in one process, and the model has a strategy of several "
        "workers: give it a "
        "OneDeviceStrategy or a MirroredStrategy");
}

LOCKSTEP_INLINE std::vector<CheckpointEvaluation> EvaluationLoop::run(
    FunctionRef<std::uint64_t()> expected,
    FunctionRef<Logs(const std::string& path, const TrainingState& state)> evaluate) {
  std::vector<CheckpointEvaluation> evaluated;
  CheckpointPoll poll(options_);
  while (!options_.max_evaluations || results_.size() < *options_.max_evaluations) {
    // Asked first, because the end is said after the last save.
    const bool ended = training_has_ended(options_.checkpoint_dir);
    const auto found = watch_.next(expected());
    if (!found) {
      if (ended) break;
      poll.wait();
      continue;
    }
    const TrainingState state = decode_checkpoint(found->bytes);
    CheckpointEvaluation evaluation{.checkpoint = found->path.substr(found->path.rfind('/') + 1),
                                    .iterations = state.iterations,
                                    .logs = {}};
    if (state.signature.empty()) {
      warn_of_weights_alone(found->path);
    } else if (!results_.contains(evaluation.checkpoint, evaluation.iterations)) {
      evaluation.logs = evaluate(found->path, state);
      results_.append(evaluation);
      if (options_.verbose > 0) log_evaluation(found->path, evaluation);
      evaluated.push_back(std::move(evaluation));
    }
    poll.renew();
  }
  return evaluated;
}

}  // namespace detail

LOCKSTEP_INLINE void SidecarEvaluatorOptions::validate() const {
  if (checkpoint_dir.empty())
    throw ConfigurationError(
        "SidecarEvaluator: checkpoint_dir is empty: name the folder of the checkpoints");
  if (max_evaluations && *max_evaluations < 1)
    throw ConfigurationError(concat({"SidecarEvaluator: max_evaluations must be at least 1, got ",
                                     *max_evaluations, "; std::nullopt evaluates all"}));
  if (poll_interval.count() < 1)
    throw ConfigurationError(concat(
        {"SidecarEvaluator: poll_interval must be at least 1 ms, got ", poll_interval.count()}));
  if (timeout < poll_interval)
    throw ConfigurationError(
        concat({"SidecarEvaluator: timeout must be no shorter than poll_interval, got ",
                timeout.count(), " and ", poll_interval.count(), " ms"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI
