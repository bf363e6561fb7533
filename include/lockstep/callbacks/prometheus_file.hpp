// PrometheusFile: a running fit, for monitoring.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct PrometheusFileOptions {
  /// "{rank}" in it stands for the worker's number, and each worker writes a file; without it, the
  /// chief alone writes.
  std::string filename;
  std::chrono::milliseconds interval = std::chrono::seconds(5);  ///< between two writes, at least
};

/// Keeps a file in Prometheus's text format, for the textfile collector of its node_exporter, say.
/// It is replaced as a whole at most once in an interval, at the end of a step, and at the end of
/// each epoch and of fit:
///
/// | metric | |
/// |---|---|
/// | lockstep_training | 1 while fit runs, 0 after its end |
/// | lockstep_heartbeat_seconds | seconds since 1970 at this write: old where the worker hangs |
/// | lockstep_updates_total | updates of the optimizer |
/// | lockstep_epoch | from 0 |
/// | lockstep_step_seconds | of a step, on average since the last write |
/// | lockstep_figure{name="loss"} | each of the logs, as of the epoch so far |
/// | lockstep_compute_seconds{rank="0"}, lockstep_wait_seconds{rank="0"} | of the last epoch, by
/// rank | | lockstep_workers | |
/// | lockstep_failures_total | fits that an exception has ended, with this callback |
///
/// All but those by rank have the label worker, this worker's number. A file that cannot be written
/// is a warning, once in a fit: training does not end for it.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
class PrometheusFile {
 public:
  static constexpr bool stops_training = false;

  /// Throws ConfigurationError without a filename, and for a negative interval.
  explicit PrometheusFile(PrometheusFileOptions options);

  void on_train_begin(Training& training);
  void on_epoch_begin(Training& training, int epoch);
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_train_end(Training& training, Logs& logs);
  void on_train_abort(Training& training);

 private:
  using Clock = std::chrono::steady_clock;

  void write(const Training& training, const Logs& logs, bool is_training);
  [[nodiscard]] std::string text(const Training& training, const Logs& logs,
                                 bool is_training) const;

  PrometheusFileOptions options_;
  std::string path_;  // empty: this worker writes nothing
  int epoch_ = 0;
  int failures_ = 0;
  bool has_warned_ = false;
  std::int64_t steps_ = 0;  // since the last write
  double step_seconds_ = 0;
  Clock::time_point since_{};
};

static_assert(Callback<PrometheusFile>);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/prometheus_file.ipp"
#endif
