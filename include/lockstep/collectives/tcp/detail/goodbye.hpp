// The orderly end of a rank that works over TCP.
#pragma once

#include <algorithm>
#include <string>

#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/control_partners.hpp"
#include "lockstep/collectives/protocol/wait_policy.hpp"
#include "lockstep/collectives/tcp/detail/mesh.hpp"
#include "lockstep/collectives/tcp/detail/waiting.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
