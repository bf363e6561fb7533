// SidecarEvaluator: evaluates the checkpoints of a training in another process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/checkpoint_watch.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
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
  /// Batches of an evaluation; default: until the data ends.
  std::optional<std::int64_t> steps = std::nullopt;
  /// It ends after so many evaluations; the rows that `results` had count, too.
  std::optional<std::int64_t> max_evaluations = std::nullopt;
  std::chrono::milliseconds poll_interval = std::chrono::seconds(1);
  /// How long to wait for the next checkpoint.
  std::chrono::milliseconds timeout = std::chrono::hours(1);
  int verbose = 1;  ///< 1: a line for each checkpoint

  /// Throws ConfigurationError.
  void validate() const;
};

namespace detail {

/// What a SidecarEvaluator does for any model: it follows the folder, and keeps the results.
class EvaluationLoop {
 public:
  /// Throws what the constructor of SidecarEvaluator throws.
  EvaluationLoop(SidecarEvaluatorOptions options, int num_workers);

  [[nodiscard]] const SidecarEvaluatorOptions& options() const noexcept { return options_; }

  /// Calls `evaluate` for each checkpoint that has no row yet, until training has ended.
  /// `expected`: bytes of the model's arrays.
  std::vector<CheckpointEvaluation> run(
      FunctionRef<std::uint64_t()> expected,
      FunctionRef<Logs(const std::string& path, const TrainingState& state)> evaluate);

 private:
  SidecarEvaluatorOptions options_;
  CheckpointWatch watch_;
  EvaluationResults results_;
};

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
/// lockstep::SidecarEvaluator(model, test,
///                            {.checkpoint_dir = "run", .results = "run/evaluation.csv"}).start();
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
        loop_(std::move(options), Files::trainer(model).strategy().num_workers()) {}

  /// Evaluates the checkpoints that are there, oldest first, and those that come, until training
  /// has ended. The callbacks are those of Model::evaluate. Returns what it evaluated itself, in
  /// order. Throws ConfigurationError when a checkpoint belongs to another program, naming the
  /// difference, and Error when no checkpoint has come for `timeout`.
  template <class... Callbacks>
  std::vector<CheckpointEvaluation> start(Callbacks&&... callbacks) {
    return loop_.run(
        [&] { return Files::trainer(model_).state_bytes(); },
        [&](const std::string& path, const TrainingState& state) {
          detail::naming_file("SidecarEvaluator", path,
                              [&] { detail::restore(*Files::trainer(model_), state); });
          return model_.evaluate(
              data_, EvaluateOptions{.verbose = 0, .steps = loop_.options().steps}, callbacks...);
        });
  }

 private:
  Model& model_;
  AnyDataset data_;
  detail::EvaluationLoop loop_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/saving/sidecar_evaluator.ipp"
#endif
