// SidecarEvaluator: evaluates the checkpoints of a training in another process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/checkpoint_watch.hpp"
#include "lockstep/checkpoint/training_end.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/saving/evaluation_results.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/fit_options.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct SidecarEvaluatorOptions {
  /// Where CheckpointManager or ModelCheckpoint writes; need not be there yet.
  std::string checkpoint_dir;
  /// A .csv file with a row for each checkpoint; those that have one are not evaluated again.
  /// Default: none.
  std::string results = {};
  /// Of an evaluation; default: until the data ends.
  std::optional<std::int64_t> steps = std::nullopt;
  /// Then it ends; the rows that `results` had count, too.
  std::optional<std::int64_t> max_evaluations = std::nullopt;
  std::chrono::milliseconds poll_interval = std::chrono::seconds(1);
  /// How long to wait for the next checkpoint.
  std::chrono::milliseconds timeout = std::chrono::hours(1);
  int verbose = 1;  ///< 1: a line for each checkpoint

  /// Throws ConfigurationError.
  void validate() const;
};

namespace detail {

/// Waits between two looks into the folder, up to the timeout.
class CheckpointPoll {
 public:
  explicit CheckpointPoll(const SidecarEvaluatorOptions& options) : options_(options) {}
  void renew() { since_ = Clock::now(); }
  /// Sleeps for poll_interval. Throws Error when the timeout has passed since the last renew.
  void wait() const;

 private:
  using Clock = std::chrono::steady_clock;
  const SidecarEvaluatorOptions& options_;
  Clock::time_point since_ = Clock::now();
};

void log_evaluation(const std::string& path, const CheckpointEvaluation& evaluation);
void warn_of_weights_alone(const std::string& path);

}  // namespace detail

/// The evaluator task of a cluster, as tf.keras.utils.SidecarEvaluator: a process of its own
/// (`cluster_from_environment().is_evaluator()`) that evaluates each checkpoint of a training once,
/// so that the workers need not stop for it. The model has the same network, loss, optimizer and
/// metrics as the one that is trained, under OneDeviceStrategy or MirroredStrategy.
///
/// It ends when training has ended, which CheckpointManager::finish, or the end of a fit with
/// ModelCheckpoint, says in the folder. Training that was killed has not ended: the evaluator waits
/// for it. In a folder whose training has ended, it evaluates the rest and ends; so if a new run
/// uses the folder again, start the evaluator after it. Checkpoints that are damaged, have weights
/// alone, or are deleted before they are read, are skipped.
/// @code
/// lockstep::OneDeviceStrategy strategy;
/// auto model = lockstep::compile<Cnn>(strategy, loss, optimizer, lockstep::Accuracy{});
/// lockstep::SidecarEvaluator(model, test, {.checkpoint_dir = "run", .results = "run/evaluation.csv"}).start();
/// @endcode
///
/// Used by one thread.
template <class Model>
class SidecarEvaluator {
  using Files = detail::ModelFiles<Model>;

 public:
  /// Refers to the model; `data` is what Model::evaluate takes. Throws ConfigurationError for wrong
  /// options, and when the model's strategy has several workers; Error naming the path when results
  /// cannot be read.
  SidecarEvaluator(Model& model, AnyDataset data, SidecarEvaluatorOptions options)
      : model_(model),
        data_(std::move(data)),
        options_(std::move(options)),
        watch_(options_.checkpoint_dir),
        results_(options_.results) {
    options_.validate();
    if (Files::trainer(model).strategy().num_workers() != 1)
      throw ConfigurationError(
          "SidecarEvaluator: evaluates in one process, and the model has a strategy of several "
          "workers: give it a "
          "OneDeviceStrategy or a MirroredStrategy");
  }

  /// Evaluates the checkpoints that are there, oldest first, and those that come, until training
  /// has ended. The callbacks are those of Model::evaluate. Returns what it evaluated itself, in
  /// order. Throws ConfigurationError when a checkpoint belongs to another program, naming the
  /// difference, and Error when no checkpoint has come for `timeout`.
  template <class... Callbacks>
  std::vector<CheckpointEvaluation> start(Callbacks&&... callbacks) {
    std::vector<CheckpointEvaluation> evaluated;
    detail::CheckpointPoll poll(options_);
    while (!options_.max_evaluations || results_.size() < *options_.max_evaluations) {
      // Asked first, because the end is said after the last save.
      const bool ended = training_has_ended(options_.checkpoint_dir);
      if (const auto found = watch_.next(Files::trainer(model_).state_bytes())) {
        if (auto evaluation = evaluate(*found, callbacks...))
          evaluated.push_back(std::move(*evaluation));
        poll.renew();
      } else if (ended) {
        break;
      } else {
        poll.wait();
      }
    }
    return evaluated;
  }

 private:
  template <class... Callbacks>
  std::optional<CheckpointEvaluation> evaluate(const detail::FoundCheckpoint& found,
                                               Callbacks&... callbacks) {
    const TrainingState state = decode_checkpoint(found.bytes);
    CheckpointEvaluation evaluation{.checkpoint = found.path.substr(found.path.rfind('/') + 1),
                                    .iterations = state.iterations,
                                    .logs = {}};
    if (state.signature.empty()) {
      detail::warn_of_weights_alone(found.path);
      return std::nullopt;
    }
    if (results_.contains(evaluation.checkpoint, evaluation.iterations)) return std::nullopt;
    detail::naming_file("SidecarEvaluator", found.path,
                        [&] { detail::restore(*Files::trainer(model_), state); });
    evaluation.logs = model_.evaluate(data_, EvaluateOptions{.verbose = 0, .steps = options_.steps},
                                      callbacks...);
    results_.append(evaluation);
    if (options_.verbose > 0) detail::log_evaluation(found.path, evaluation);
    return evaluation;
  }

  Model& model_;
  AnyDataset data_;
  SidecarEvaluatorOptions options_;
  detail::CheckpointWatch watch_;
  detail::EvaluationResults results_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/saving/sidecar_evaluator.ipp"
#endif
