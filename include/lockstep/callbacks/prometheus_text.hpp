// A running fit in Prometheus's text format.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/prometheus_text.ipp"
#endif
