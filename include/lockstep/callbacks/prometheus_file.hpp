// PrometheusFile: a running fit, for monitoring.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/prometheus_text.hpp"
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
/// each epoch and of fit. See detail::PrometheusText for what is in it. A file that cannot be
/// written is a warning, once in a fit: training does not end for it.
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
  void write(const Training& training, const Logs& logs, bool is_training);

  PrometheusFileOptions options_;
  std::string path_;  // empty: this worker writes nothing
  bool has_warned_ = false;
  detail::PrometheusText text_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/prometheus_file.ipp"
#endif
