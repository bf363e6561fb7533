#pragma once

#include <cmath>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>

#include "lockstep/callbacks/prometheus_file.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/json_text.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// A number in Prometheus's text format.
[[nodiscard, gnu::cold]] LOCKSTEP_INLINE std::string prometheus_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  return concat({number});
}

/// A label's value: its escapes are those of JSON for what a name may hold, but for other control
/// characters.
[[nodiscard, gnu::cold]] LOCKSTEP_INLINE std::string prometheus_label(std::string_view text) {
  return json_text(printable(text, 200));
}

}  // namespace detail

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
  steps_ = 0;
  step_seconds_ = 0;
  since_ = Clock::now();
  write(training, {}, true);
}

LOCKSTEP_INLINE void PrometheusFile::on_epoch_begin(Training&, int epoch) { epoch_ = epoch; }

LOCKSTEP_INLINE void PrometheusFile::on_train_batch_end(Training& training, std::int64_t,
                                                        Logs& logs) {
  ++steps_;
  if (!path_.empty() && Clock::now() - since_ >= options_.interval) write(training, logs, true);
}

LOCKSTEP_INLINE void PrometheusFile::on_epoch_end(Training& training, int, Logs& logs) {
  write(training, logs, true);
}

LOCKSTEP_INLINE void PrometheusFile::on_train_end(Training& training, Logs& logs) {
  write(training, logs, false);
}

LOCKSTEP_INLINE void PrometheusFile::on_train_abort(Training& training) {
  ++failures_;
  write(training, {}, false);
}

LOCKSTEP_INLINE void PrometheusFile::write(const Training& training, const Logs& logs,
                                           bool is_training) {
  if (path_.empty()) return;
  const auto now = Clock::now();
  if (steps_ > 0) {
    step_seconds_ =
        std::chrono::duration<double>(now - since_).count() / static_cast<double>(steps_);
    steps_ = 0;
  }
  since_ = now;
  try {
    const std::string content = text(training, logs, is_training);
    write_file_atomically(path_, std::as_bytes(std::span(content)));
  } catch (const std::exception& error) {
    if (!std::exchange(has_warned_, true))
      log_line(
          concat({"warning: PrometheusFile: ", error.what(), "; training goes on without it"}));
  }
}

LOCKSTEP_INLINE std::string PrometheusFile::text(const Training& training, const Logs& logs,
                                                 bool is_training) const {
  using detail::prometheus_label;
  using detail::prometheus_number;
  std::string content;
  const auto declare = [&](std::string_view name, std::string_view type, std::string_view help) {
    content +=
        concat({"# HELP lockstep_", name, " ", help, "\n# TYPE lockstep_", name, " ", type, "\n"});
  };
  const std::string worker = concat({"worker=\"", training.worker_index(), "\""});
  const auto add = [&](std::string_view name, const std::string& labels, double value) {
    content += concat({"lockstep_", name, "{", labels, "} ", prometheus_number(value), "\n"});
  };
  const auto number = [&](std::string_view name, std::string_view type, std::string_view help,
                          double value) {
    declare(name, type, help);
    add(name, worker, value);
  };
  const double time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  number("training", "gauge", "1 while fit runs.", is_training ? 1 : 0);
  number("heartbeat_seconds", "gauge", "Unix time of this write.", std::floor(time * 1000) / 1000);
  number("updates_total", "counter", "Updates of the optimizer.",
         static_cast<double>(training.iterations()));
  number("epoch", "gauge", "The epoch, from 0.", epoch_);
  number("step_seconds", "gauge", "Time of a step, on average since the last write.",
         step_seconds_);
  number("workers", "gauge", "Workers of the cluster.", training.num_workers());
  number("failures_total", "counter", "Fits that an exception has ended.", failures_);
  if (!logs.empty()) {
    declare("figure", "gauge", "Loss and metrics of the epoch so far.");
    for (const auto& [name, value] : logs)
      add("figure", concat({worker, ",name=", prometheus_label(name)}), value);
  }
  const auto ranks = training.rank_times();
  const auto by_rank = [&](std::string_view name, std::string_view help, double RankTime::*member) {
    if (ranks.empty()) return;
    declare(name, "gauge", help);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      add(name, concat({"rank=\"", rank, "\""}), ranks[rank].*member);
  };
  by_rank("compute_seconds", "Time outside of reductions in the last epoch.", &RankTime::compute);
  by_rank("wait_seconds", "Time in reductions in the last epoch.", &RankTime::collective);
  return content;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
