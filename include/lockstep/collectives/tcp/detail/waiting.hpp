// A wait for other ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
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

/// Waits while is_awaited(rank, peer) holds for any peer that is still there and alive. Names a
/// peer for which the wait does not end.
template <class Condition>
void wait_for_peers(TcpMesh& mesh, TcpMesh::Milliseconds limit, const char* what,
                    Condition is_awaited) {
  WaitPolicy::Waiter waiter = mesh.waiter();
  waiter.doing = "at its end";
  waiter.timeout = std::min(waiter.timeout, limit);
  waiter.progress_limit = limit;
  waiter.at_end = true;
  TcpWait wait(mesh, waiter);
  bool has_news = false;
  for (;;) {
    const int missing = mesh.control.with([&](const ControlChannel& channel) {
      for (int other = 0; other < mesh.size(); ++other)
        if (other != mesh.rank && !channel.peer(other).gone &&
            is_awaited(other, channel.peer(other)))
          return other;
      return -1;
    });
    if (missing < 0) return;
    mesh.throw_if_failed();
    const auto now = TcpMesh::Clock::now();
    const WaitPolicy::Advice advice = wait.look(missing, -1, has_news, now);
    if (advice.failure)
      return log_warning(concat({mesh.names(advice.failure->failed_rank), " ", what,
                                 advice.is_silence ? ": it " + advice.failure->reason
                                                   : concat({" within ", limit.count(), " ms"})}));
    mesh.watched.clear();
    has_news = mesh.wait(wait.left(now), mesh.watch_news());
  }
}

/// Returns when all ranks have called it, rank 0 last; see Tcp::close().
inline void say_goodbye(TcpMesh& mesh) {
  using Peer = ControlChannel::Peer;
  const CommunicationOptions& options = mesh.options;
  constexpr const char* did_not_end = "did not end its work";
  mesh.control.with([](ControlChannel& channel) { channel.say_goodbye(); });
  if (mesh.rank == 0) {
    wait_for_peers(mesh, options.progress_limit(), did_not_end,
                   [](int, const Peer& peer) { return !peer.goodbye; });
    mesh.control.with([](ControlChannel& channel) { channel.say_farewell(); });
  } else {
    wait_for_peers(mesh, options.progress_limit(), did_not_end,
                   [](int other, const Peer& peer) { return other == 0 && !peer.farewell; });
    // Ranks that are no partners of rank 0 could not see that it left too early.
    mesh.control.with([](ControlChannel& channel) {
      if (channel.peer(0).gone) channel.say_farewell();
    });
  }
  wait_for_peers(mesh, std::min(options.timeout, TcpMesh::Milliseconds(5000)), "did not leave",
                 [&](int other, const Peer&) {
                   return other != 0 && leaves_after(other, mesh.size()) == mesh.rank;
                 });
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
