// When a launcher ends its parameter servers: after the workers.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "lockstep/cluster/detail/worker_group.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Servers end by themselves when all workers have said goodbye. Those that do not are told to, and
/// killed when that does not help.
class ServersEnd {
 public:
  using Clock = WorkerGroup::Clock;

  /// `to_leave`: how long they have when all workers have ended well; otherwise they are told at
  /// once. `to_stop`: how long those that were told have.
  ServersEnd(const WorkerGroup& group, std::chrono::milliseconds to_leave,
             std::chrono::milliseconds to_stop)
      : group_(group), to_leave_(to_leave), to_stop_(to_stop) {}

  /// Does what is due, once no worker lives.
  void keep(Clock::time_point now) {
    if (group_.any_worker_lives() || !group_.any_lives()) return;
    const bool is_well = group_.all_workers_have_succeeded();
    if (!deadline_) deadline_ = now + (is_well ? to_leave_ : std::chrono::milliseconds(0));
    if (now < *deadline_) return;
    if (has_told_) {
      group_.signal_servers(SIGKILL);
    } else {
      if (is_well)
        log_line("all workers have ended, and not all parameter servers: these are told to stop");
      group_.signal_servers(SIGTERM);
      group_.signal_servers(SIGCONT);  // for those that are stopped
    }
    has_told_ = true;
    deadline_ = now + to_stop_;
  }
  /// When to call keep() again.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept { return deadline_; }
  [[nodiscard]] bool has_told() const noexcept { return has_told_; }

 private:
  const WorkerGroup& group_;
  const std::chrono::milliseconds to_leave_;
  const std::chrono::milliseconds to_stop_;
  std::optional<Clock::time_point> deadline_;
  bool has_told_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
