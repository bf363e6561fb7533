// PrometheusFile: a running fit, for monitoring.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/prometheus/prometheus_text.hpp"

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
/// Include <lockstep/extra/prometheus.hpp>.
/// Use: `PrometheusFile({.filename = "lockstep.prom"})`. Keras: none.
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

inline PrometheusFile::PrometheusFile(PrometheusFileOptions options)
    : options_(std::move(options)) {
  if (options_.filename.empty())
    throw ConfigurationError(
        "PrometheusFile: the filename is empty; expected one such as metrics/{rank}.prom");
  if (options_.interval.count() < 0)
    throw ConfigurationError(concat({"PrometheusFile: the interval must be 0 ms or more, got ",
                                     options_.interval.count(), " ms"}));
}

inline void PrometheusFile::on_train_begin(Training& training) {
  constexpr std::string_view rank = "{rank}";
  path_ = options_.filename;
  if (const auto at = path_.find(rank); at != std::string::npos)
    path_.replace(at, rank.size(), concat({training.worker_index()}));
  else if (!training.is_chief())
    path_.clear();
  has_warned_ = false;
  text_.begin();
  write(training, {}, true);
}

inline void PrometheusFile::on_epoch_begin(Training&, int epoch) { text_.begin_epoch(epoch); }

inline void PrometheusFile::on_train_batch_end(Training& training, std::int64_t, Logs& logs) {
  text_.count_step();
  if (!path_.empty() && detail::PrometheusText::Clock::now() - text_.since() >= options_.interval)
    write(training, logs, true);
}

inline void PrometheusFile::on_epoch_end(Training& training, int, Logs& logs) {
  write(training, logs, true);
}

inline void PrometheusFile::on_train_end(Training& training, Logs& logs) {
  write(training, logs, false);
}

inline void PrometheusFile::on_train_abort(Training& training) {
  text_.count_failure();
  write(training, {}, false);
  path_.clear();  // where training goes on, the next chief writes there
}

inline void PrometheusFile::write(const Training& training, const Logs& logs, bool is_training) {
  if (path_.empty()) return;
  try {
    const std::string content = text_.make(training, logs, is_training);
    write_file_atomically(path_, std::as_bytes(std::span(content)));
  } catch (const std::exception& error) {
    if (!std::exchange(has_warned_, true))
      log_warning(concat({"PrometheusFile: ", error.what(), "; training goes on without it"}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
