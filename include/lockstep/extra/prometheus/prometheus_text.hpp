// A running fit in Prometheus's text format.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/traffic.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What PrometheusFile writes and PrometheusPort answers:
///
/// | metric | |
/// |---|---|
/// | lockstep_training | 1 while fit runs, 0 after its end |
/// | lockstep_heartbeat_seconds | seconds since 1970 at this text: old where the worker hangs |
/// | lockstep_updates_total | updates of the optimizer |
/// | lockstep_epoch | from 0 |
/// | lockstep_step_seconds | of a step of an epoch, on average since the last text that had one |
/// | lockstep_figure{name="loss"} | each of the logs, as of the epoch so far |
/// | lockstep_compute_seconds{rank="0"}, lockstep_wait_seconds{rank="0"} | of the last epoch |
/// | lockstep_sent_bytes_total, lockstep_received_bytes_total | see Traffic |
/// | lockstep_workers | |
/// | lockstep_failures_total | fits that an exception has ended, with this callback |
///
/// All but those by rank have the label worker, this worker's number.
class PrometheusText {
 public:
  using Clock = std::chrono::steady_clock;

  void begin() noexcept {
    steps_ = 0;
    in_steps_ = {};
    step_seconds_ = 0;
    since_ = step_began_ = Clock::now();
  }
  void begin_epoch(int epoch) noexcept {
    epoch_ = epoch;
    step_began_ = Clock::now();
  }
  void count_step() noexcept {
    ++steps_;
    const auto now = Clock::now();
    in_steps_ += now - std::exchange(step_began_, now);
  }
  void count_failure() noexcept { ++failures_; }

  /// When the last text was made.
  [[nodiscard]] Clock::time_point since() const noexcept { return since_; }
  [[nodiscard]] std::string make(const Training& training, const Logs& logs, bool is_training);

 private:
  int epoch_ = 0;
  int failures_ = 0;
  std::int64_t steps_ = 0;  // since the last text
  Clock::duration in_steps_{};
  Clock::time_point step_began_{};
  double step_seconds_ = 0;
  Clock::time_point since_{};
};

/// A number in Prometheus's text format.
[[nodiscard, gnu::cold]] inline std::string prometheus_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  return concat({number});
}

/// A label's value: its escapes are those of JSON for what a name may hold, but for other control
/// characters.
[[nodiscard, gnu::cold]] inline std::string prometheus_label(std::string_view text) {
  return json_text(printable(text, 200));
}

inline std::string PrometheusText::make(const Training& training, const Logs& logs,
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
