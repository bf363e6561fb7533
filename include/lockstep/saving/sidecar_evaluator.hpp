// SidecarEvaluator: evaluates the checkpoints of a training in another process.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/model_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The figures of one checkpoint.
struct CheckpointEvaluation {
  std::string checkpoint;       ///< the file's name in its folder
  std::int64_t iterations = 0;  ///< optimizer updates made until then
  Logs logs;                    ///< loss and metrics
};

namespace detail {

/// Rows of comma-separated values: checkpoint, iterations, and one column for each figure of the
/// logs, as the first row says. The file is replaced as a whole with each new row, so that a reader
/// never sees a part of one.
class EvaluationResults {
 public:
  /// Continues the file, if there is one. With an empty path no file is written. Throws Error
  /// naming the path when it cannot be read, DataError when it is something else.
  explicit EvaluationResults(std::string path);

  /// A checkpoint that was overwritten since has another number of iterations.
  [[nodiscard]] bool contains(std::string_view checkpoint, std::int64_t iterations) const;
  /// Number of evaluations, those that the file had at the start included.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Throws ConfigurationError when the file has other columns, Error naming the path when it
  /// cannot be written.
  void append(const CheckpointEvaluation& evaluation);

 private:
  std::string path_;
  std::string text_;
  std::int64_t size_ = 0;
};

}  // namespace detail
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Text with what would end it in quotation marks (RFC 4180), on one line.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c == '\n' || c == '\r' ? ' ' : c;
  }
  return field + "\"";
}

inline std::string evaluation_key(std::string_view checkpoint, std::int64_t iterations) {
  return concat({csv_field(checkpoint), ",", iterations});
}

inline EvaluationResults::EvaluationResults(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  remove_stale_temporaries(path_);
  const auto bytes = read_file(path_, at_most(std::uint64_t{1} << 30, "a table of evaluations"));
  if (!bytes || bytes->empty()) return;
  text_.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (!text_.starts_with("checkpoint,iterations,") || !text_.ends_with('\n'))
    throw DataError(concat({"SidecarEvaluator: results: ", in_quotes(path_),
                            " is no table of evaluations, which begins with "
                            "'checkpoint,iterations,': name another file"}));
  size_ = std::count(text_.begin(), text_.end(), '\n') - 1;
}

inline bool EvaluationResults::contains(std::string_view checkpoint,
                                        std::int64_t iterations) const {
  return text_.find(concat({"\n", evaluation_key(checkpoint, iterations), ","})) !=
         std::string::npos;
}

inline void EvaluationResults::append(const CheckpointEvaluation& evaluation) {
  std::string header = "checkpoint,iterations",
              row = evaluation_key(evaluation.checkpoint, evaluation.iterations);
  for (const auto& [name, value] : evaluation.logs) {
    header += "," + csv_field(name);
    row += concat({",", value});
  }
  header += '\n';
  if (text_.empty()) text_ = header;
  if (!text_.starts_with(header))
    throw ConfigurationError(
        concat({"SidecarEvaluator: results: ", in_quotes(path_), " has the columns ",
                in_quotes(text_.substr(0, text_.find('\n'))), ", this program gives ",
                in_quotes(header.substr(0, header.size() - 1)), ": name another file"}));
  text_ += row + '\n';
  ++size_;
  if (!path_.empty()) write_file_atomically(path_, std::as_bytes(std::span(text_)));
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a SidecarEvaluator follows, and for how long.
struct SidecarEvaluatorOptions {
  /// Where CheckpointManager or ModelCheckpoint writes; need not be there yet.
  std::string checkpoint_dir;
  /// A .csv file with a row for each checkpoint; those that have one are not evaluated again.
  /// Default: none.
  std::string results = {};
  /// Batches of an evaluation; default: until the data ends.
  std::optional<std::int64_t> steps = std::nullopt;
  /// Stop after this many evaluations, including the rows already in `results`.
  std::optional<std::int64_t> max_evaluations = std::nullopt;
  std::chrono::milliseconds poll_interval = std::chrono::seconds(1);  ///< between two looks
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

/// The evaluator task of a cluster, as tf.keras.utils.SidecarEvaluator: a separate process
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
/// Use: `SidecarEvaluator(model, dataset, {.checkpoint_dir = "run"})`.
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
        loop_(std::move(options), detail::strategy_of(Files::trainer(model)).num_workers()) {}

  /// Evaluates the checkpoints that are there, oldest first, and those that come, until training
  /// has ended. The callbacks are those of Model::evaluate. Returns what it evaluated itself, in
  /// order. Throws ConfigurationError when a checkpoint belongs to another program, naming the
  /// difference, and Error when no checkpoint has come for `timeout`.
  /// Use: `evaluator.start()`.
  template <class... Callbacks>
  std::vector<CheckpointEvaluation> start(Callbacks&&... callbacks) {
    return loop_.run([&] { return detail::state_bytes(Files::trainer(model_)); },
                     [&](const std::string& path, const TrainingState& state) {
                       detail::naming_file("SidecarEvaluator", path,
                                           [&] { detail::restore(Files::trainer(model_), state); });
                       return model_.evaluate(
                           data_, EvaluateOptions{.verbose = 0, .steps = loop_.options().steps},
                           callbacks...);
                     });
  }

 private:
  Model& model_;
  AnyDataset data_;
  detail::EvaluationLoop loop_;
};

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
          {"SidecarEvaluator: no new checkpoint in ", in_quotes(options_.checkpoint_dir), " for ",
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
  std::string text =
      concat({"evaluated ", in_quotes(path), " after ", evaluation.iterations, " updates"});
  for (const auto& [name, value] : evaluation.logs) text += concat({" - ", name, ": ", value});
  log_line(text);
}

inline void warn_of_weights_alone(const std::string& path) {
  log_warning(concat({"skipping the checkpoint ", in_quotes(path),
                      ": it has weights alone: let ModelCheckpoint save the whole state "
                      "(save_weights_only = false)"}));
}

inline EvaluationLoop::EvaluationLoop(SidecarEvaluatorOptions options, int num_workers)
    : options_(std::move(options)), watch_(options_.checkpoint_dir), results_(options_.results) {
  options_.validate();
  if (num_workers != 1)
    throw ConfigurationError(
        "SidecarEvaluator: evaluates in one process, and the model has a strategy of several "
        "workers: give it a OneDeviceStrategy or a MirroredStrategy");
}

inline std::vector<CheckpointEvaluation> EvaluationLoop::run(
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

inline void SidecarEvaluatorOptions::validate() const {
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

}}  // namespace lockstep
