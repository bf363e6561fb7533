#pragma once

#include <thread>

#include "lockstep/core/log.hpp"
#include "lockstep/saving/sidecar_evaluator.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

LOCKSTEP_INLINE void CheckpointPoll::wait() const {
  if (Clock::now() - since_ >= options_.timeout)
    throw Error(concat(
        {"SidecarEvaluator: no new checkpoint in '", options_.checkpoint_dir, "' for ",
         std::chrono::duration<double>(options_.timeout).count(),
         " seconds, and no file there says that training has ended",
         " (as CheckpointManager::finish and ModelCheckpoint do):",
         " check that training is running and writes to this folder, or set a longer timeout"}));
  std::this_thread::sleep_for(options_.poll_interval);
}

LOCKSTEP_INLINE void log_evaluation(const std::string& path,
                                    const CheckpointEvaluation& evaluation) {
  std::string text = concat({"evaluated '", path, "' after ", evaluation.iterations, " updates"});
  for (const auto& [name, value] : evaluation.logs) text += concat({" - ", name, ": ", value});
  log_line(text);
}

LOCKSTEP_INLINE void warn_of_weights_alone(const std::string& path) {
  log_line(concat({"warning: skipping the checkpoint '", path,
                   "': it has weights alone: let ModelCheckpoint save the whole state "
                   "(save_weights_only = false)"}));
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
