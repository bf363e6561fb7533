// JSONLogger: what happens in training, for programs to read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/frequency.hpp"
#include "lockstep/callbacks/log_file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// `, "loss": 0.25, "accuracy": 0.5`
inline std::string json_members(const Logs& logs) {
  std::string members;
  for (const auto& [name, value] : logs)
    members += ", " + json_text(name) + ": " + json_number(value);
  return members;
}

inline std::string json_ms(std::chrono::steady_clock::time_point begin) {
  return json_number(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
}

/// The learning rate as a member, unless it is among the figures.
inline std::string json_learning_rate(const Training& training, const Logs& logs) {
  if (logs.contains("learning_rate")) return {};
  return ", \"learning_rate\": " + json_number(training.learning_rate());
}

inline std::string json_rank_times(std::span<const RankTime> ranks) {
  std::string list;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    list += concat({rank > 0 ? ", " : "", "{\"rank\": ", rank,
                    ", \"compute_ms\": ", json_number(1000 * ranks[rank].compute),
                    ", \"collective_ms\": ", json_number(1000 * ranks[rank].collective), "}"});
  return list;
}

}  // namespace detail

struct JSONLoggerOptions {
  std::string filename;
  UpdateFrequency update_freq = UpdateFrequency::batch;  ///< how often a step gets a line
  bool append = false;                                   ///< keep what the file has
};

/// Writes a JSON object for each event, a line each (JSON Lines):
///
/// | "event" | members |
/// |---|---|
/// | "train_begin" | "workers" |
/// | "step" | "epoch", "step", "iteration", "ms", "learning_rate", averages of the epoch so far |
/// | "epoch" | "epoch", "steps", "iteration", "ms", "learning_rate", the figures, "rank_times" |
/// | "evaluate" | "iteration", the figures; outside of fit, and never over what the file has |
/// | "train_end", "train_abort" | |
///
/// Each has "time", in seconds since 1970. Epochs count from 0, the steps of an epoch from 1;
/// "iteration" is the number of updates made. "ms" is how many milliseconds the step took, or the
/// epoch with its validation, since fit began or was resumed. "rank_times" has {"rank",
/// "compute_ms", "collective_ms"} for every rank, of the steps of the epoch: the second is the time
/// in reductions, waiting included. A figure that is no finite number is null.
///
/// The chief alone writes, each line at once; a run that BackupAndRestore resumes goes on in the
/// file behind its last snapshot. Serves one fit at a time; its hooks run on the thread of the
/// first replica.
/// Use: `JSONLogger({.filename = "log.jsonl"})`. Keras: none.
class JSONLogger {
 public:
  static constexpr bool stops_training = false;

  /// Throws ConfigurationError without a filename.
  explicit JSONLogger(JSONLoggerOptions options)
      : file_("JSONLogger", std::move(options.filename), options.append),
        update_freq_(options.update_freq) {}

  void on_train_begin(Training& training) {
    file_.open(training);
    is_in_fit_ = true;
    batches_ = 0;
    workers_ = training.num_workers();
  }
  void on_epoch_begin(Training&, int epoch) {
    if (file_.start()) file_.write(line("train_begin", concat({", \"workers\": ", workers_})));
    epoch_ = epoch;
    steps_ = 0;
    epoch_began_ = Clock::now();
  }
  void on_train_batch_begin(Training&, std::int64_t) { step_began_ = Clock::now(); }
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs) {
    steps_ = batch + 1;  // those before a resume, too
    ++batches_;
    if (!file_.is_open() || !update_freq_.due(batches_)) return;
    file_.write(line(
        "step", concat({", \"epoch\": ", epoch_, ", \"step\": ", batch + 1, ", \"iteration\": ",
                        training.iterations(), ", \"ms\": ", detail::json_ms(step_began_),
                        detail::json_learning_rate(training, logs), detail::json_members(logs)})));
  }
  void on_epoch_end(Training& training, int epoch, Logs& logs) {
    if (!file_.is_open()) return;
    file_.write(
        line("epoch",
             concat({", \"epoch\": ", epoch, ", \"steps\": ", steps_, ", \"iteration\": ",
                     training.iterations(), ", \"ms\": ", detail::json_ms(epoch_began_),
                     detail::json_learning_rate(training, logs), detail::json_members(logs),
                     ", \"rank_times\": [", detail::json_rank_times(training.rank_times()), "]"})));
  }
  void on_test_end(Training& training, Logs& logs) {
    if (is_in_fit_) return;
    file_.append(training, line("evaluate", concat({", \"iteration\": ", training.iterations(),
                                                    detail::json_members(logs)})));
  }
  void on_train_end(Training&, Logs&) {
    file_.write(line("train_end", {}));
    file_.close();
    is_in_fit_ = false;
  }
  void on_train_abort(Training&) {
    is_in_fit_ = false;
    file_.write(line("train_abort", {}));
    file_.close();
  }

  [[nodiscard]] std::string state_key() const { return file_.filename(); }
  void save(State& state) const {
    file_.save(state);
    state.put("batches", batches_);
  }
  void restore(const State& state) {
    file_.restore(state);
    if (state.contains("batches")) batches_ = state.get<std::int64_t>("batches");
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] static std::string line(std::string_view event, const std::string& members) {
    const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
    return concat({"{\"event\": \"", event, "\", \"time\": ", detail::json_number(time.count()),
                   members, "}\n"});
  }

  detail::LogFile file_;
  UpdateFrequency update_freq_;
  bool is_in_fit_ = false;
  int epoch_ = 0;
  std::int64_t steps_ = 0;    // of the epoch
  std::int64_t batches_ = 0;  // of this fit
  int workers_ = 1;
  Clock::time_point epoch_began_{};
  Clock::time_point step_began_{};
};

}}  // namespace lockstep
