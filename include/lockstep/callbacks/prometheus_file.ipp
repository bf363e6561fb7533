#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/callbacks/prometheus_file.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE PrometheusFile::PrometheusFile(PrometheusFileOptions options)
    : options_(std::move(options)) {
  if (options_.filename.empty())
    throw ConfigurationError(
        "PrometheusFile: the filename is empty; expected one such as metrics/{rank}.prom");
  if (options_.interval.count() < 0)
    throw ConfigurationError(concat({"PrometheusFile: the interval must be 0 ms or more, got ",
                                     options_.interval.count(), " ms"}));
}

LOCKSTEP_INLINE void PrometheusFile::on_train_begin(Training& training) {
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

LOCKSTEP_INLINE void PrometheusFile::on_epoch_begin(Training&, int epoch) {
  text_.begin_epoch(epoch);
}

LOCKSTEP_INLINE void PrometheusFile::on_train_batch_end(Training& training, std::int64_t,
                                                        Logs& logs) {
  text_.count_step();
  if (!path_.empty() && detail::PrometheusText::Clock::now() - text_.since() >= options_.interval)
    write(training, logs, true);
}

LOCKSTEP_INLINE void PrometheusFile::on_epoch_end(Training& training, int, Logs& logs) {
  write(training, logs, true);
}

LOCKSTEP_INLINE void PrometheusFile::on_train_end(Training& training, Logs& logs) {
  write(training, logs, false);
}

LOCKSTEP_INLINE void PrometheusFile::on_train_abort(Training& training) {
  text_.count_failure();
  write(training, {}, false);
  path_.clear();  // where training goes on, the next chief writes there
}

LOCKSTEP_INLINE void PrometheusFile::write(const Training& training, const Logs& logs,
                                           bool is_training) {
  if (path_.empty()) return;
  try {
    const std::string content = text_.make(training, logs, is_training);
    write_file_atomically(path_, std::as_bytes(std::span(content)));
  } catch (const std::exception& error) {
    if (!std::exchange(has_warned_, true))
      log_line(
          concat({"warning: PrometheusFile: ", error.what(), "; training goes on without it"}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
