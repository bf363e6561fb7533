// JSONLogger: what happens in training, for programs to read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/log_file.hpp"
#include "lockstep/callbacks/update_frequency.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
class JSONLogger {
 public:
  static constexpr bool stops_training = false;

  /// Throws ConfigurationError without a filename.
  explicit JSONLogger(JSONLoggerOptions options);

  void on_train_begin(Training& training);
  void on_epoch_begin(Training& training, int epoch);
  void on_train_batch_begin(Training& training, std::int64_t batch);
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_test_end(Training& training, Logs& logs);
  void on_train_end(Training& training, Logs& logs);
  void on_train_abort(Training& training);

  void save(State& state) const;
  void restore(const State& state);

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] static std::string line(std::string_view event, const std::string& members);

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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/json_logger.ipp"
#endif
