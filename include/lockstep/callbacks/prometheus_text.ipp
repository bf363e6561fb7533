#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include "lockstep/callbacks/prometheus_text.hpp"
#include "lockstep/core/json_text.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/traffic.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

LOCKSTEP_INLINE std::string PrometheusText::make(const Training& training, const Logs& logs,
                                                 bool is_training) {
  const auto now = Clock::now();
  if (steps_ > 0) {
    step_seconds_ = std::chrono::duration<double>(in_steps_).count() / static_cast<double>(steps_);
    steps_ = 0;
    in_steps_ = {};
  }
  since_ = now;
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
  number("heartbeat_seconds", "gauge", "Unix time of this text.", std::floor(time * 1000) / 1000);
  number("updates_total", "counter", "Updates of the optimizer.",
         static_cast<double>(training.iterations()));
  number("epoch", "gauge", "The epoch, from 0.", epoch_);
  number("step_seconds", "gauge", "Time of a step, on average since the last text.", step_seconds_);
  number("workers", "gauge", "Workers of the cluster.", training.num_workers());
  number("failures_total", "counter", "Fits that an exception has ended.", failures_);
  const Traffic bytes = traffic();
  number("sent_bytes_total", "counter", "Bytes sent to other workers.",
         static_cast<double>(bytes.sent));
  number("received_bytes_total", "counter", "Bytes received from other workers.",
         static_cast<double>(bytes.received));
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
