// A wait for other ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/protocol/wait_policy.hpp"
#include "lockstep/collectives/tcp/detail/mesh.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Until its end, this rank says which rank it waits for when asked, and gives up as WaitPolicy
/// advises.
class TcpWait {
 public:
  using Clock = TcpMesh::Clock;
  using Milliseconds = TcpMesh::Milliseconds;

  explicit TcpWait(TcpMesh& mesh) : TcpWait(mesh, mesh.waiter()) {}
  TcpWait(TcpMesh& mesh, const WaitPolicy::Waiter& waiter)
      : mesh_(mesh), policy_(waiter, Clock::now()) {}
  TcpWait(const TcpWait&) = delete;
  TcpWait& operator=(const TcpWait&) = delete;
  ~TcpWait() { mesh_.control.set_awaited(-1); }

  /// Something has moved; `received`: from the rank that this one receives from.
  void moved(bool received) noexcept { policy_.moved(Clock::now(), received); }

  /// Names the ranks that this one waits for, or -1, and returns how long to sleep. Throws when one
  /// of them is lost.
  Milliseconds next(int receiving, int sending, bool has_news) {
    const auto now = Clock::now();
    WaitPolicy::Advice advice = look(receiving, sending, has_news, now);
    if (advice.reported >= 0) note_waiting(mesh_.names.address(advice.reported));
    if (advice.failure) {
      if (!advice.is_silence) mesh_.fail(std::move(*advice.failure));
      // Either news follows, or the rank turns out to be well.
      mesh_.control.miss(advice.failure->failed_rank, mesh_.options.timeout);
    }
    return policy_.left(now);
  }

  /// The same, for a caller that decides itself what a failure means.
  [[nodiscard]] WaitPolicy::Advice look(int receiving, int sending, bool has_news,
                                        Clock::time_point now) {
    mesh_.control.set_awaited(receiving >= 0 ? receiving : sending);
    if (!has_news && !policy_.is_due(now)) return {};
    WaitPolicy::Advice advice = mesh_.control.with(
        [&](ControlChannel& channel) { return policy_.look(channel, receiving, sending, now); });
    if (!advice.report.empty()) log_line(advice.report);
    return advice;
  }
  [[nodiscard]] Milliseconds left(Clock::time_point now) const noexcept {
    return policy_.left(now);
  }

 private:
  TcpMesh& mesh_;
  WaitPolicy policy_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
