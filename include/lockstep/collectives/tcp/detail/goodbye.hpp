// The orderly end of a rank that works over TCP.
#pragma once

#include <algorithm>
#include <string>

#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/failure_watch.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/patience.hpp"
#include "lockstep/collectives/tcp/detail/mesh.hpp"
#include "lockstep/collectives/tcp/detail/waiting.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Waits until condition(peer) holds for all peers of [first, last) that are still there, as long
/// as they live; names a peer for which it does not.
template <class Condition>
void wait_for_peers(TcpMesh& mesh, int first, int last, TcpMesh::Milliseconds limit,
                    const char* what, Condition condition) {
  Patience::Waiter waiter = mesh.waiter();
  waiter.doing = "at its end";
  waiter.timeout = std::min(waiter.timeout, limit);
  waiter.progress_limit = limit;
  waiter.at_end = true;
  TcpWait wait(mesh, waiter);
  bool has_news = false;
  for (;;) {
    const int missing = mesh.control.with([&](const ControlChannel& channel) {
      for (int other = first; other < last; ++other)
        if (other != mesh.rank && !channel.peer(other).gone && !condition(channel.peer(other)))
          return other;
      return -1;
    });
    if (missing < 0) return;
    mesh.throw_if_failed();
    const auto now = TcpMesh::Clock::now();
    const Patience::Advice advice = wait.look(missing, -1, has_news, now);
    if (advice.failure)
      return log_line(
          concat({"warning: ", peer_name(mesh.addresses, advice.failure->failed_rank), " ", what,
                  advice.is_silence ? ": it " + advice.failure->reason
                                    : concat({" within ", limit.count(), " ms"})}));
    mesh.watched.clear();
    has_news = mesh.wait(wait.left(now), mesh.watch_news());
  }
}

/// Returns when all ranks have called it, rank 0 last; see Tcp::close().
inline void say_goodbye(TcpMesh& mesh) {
  const auto say = [&](ControlFrame::Type type) {
    mesh.control.with([&](ControlChannel& channel) { channel.say_to_all(type); });
  };
  const CommunicationOptions& options = mesh.options;
  constexpr const char* did_not_end = "did not end its work";
  say(ControlFrame::Type::goodbye);
  if (mesh.rank != 0)
    return wait_for_peers(mesh, 0, 1, options.progress_limit(), did_not_end,
                          [](const auto& p) { return p.farewell; });
  wait_for_peers(mesh, 1, mesh.size(), options.progress_limit(), did_not_end,
                 [](const auto& p) { return p.goodbye; });
  say(ControlFrame::Type::farewell);
  wait_for_peers(mesh, 1, mesh.size(), std::min(options.timeout, TcpMesh::Milliseconds(5000)),
                 "did not leave", [](const auto&) { return false; });
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
