#pragma once

#include <poll.h>

#include <algorithm>
#include <asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/protocol/wait_policy.hpp"
#include "lockstep/collectives/tcp/detail/mesh.hpp"
#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/traffic.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

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
  wait_for_peers(mesh, std::min(options.timeout, TcpMesh::Milliseconds(5000)), did_not_leave,
                 [&](int other, const Peer&) {
                   return other != 0 && leaves_after(other, mesh.size()) == mesh.rank;
                 });
}

/// What Tcp::transfer() does. Something **moves** when a byte of a message has been sent or
/// received.
class TcpTransfer {
 public:
  TcpTransfer(TcpMesh& mesh, int to, int from, Flow& flow)
      : TcpTransfer(mesh, to, from, flow, flow.bytes_to_send()) {}

  void run() {
    const bool receives = !receiving_.is_complete();
    TcpWait wait(mesh_);
    bool moved = true, heard = false, has_news = false;
    for (;;) {
      for (bool sent = true, received = true; sent || received; moved = moved || sent || received) {
        sent = send_some();
        received = receive_some();
        heard = heard || received;
      }
      if (sending_.is_complete() && receiving_.is_complete()) break;
      if (std::exchange(moved, false)) {
        wait.moved(std::exchange(heard, false));
        if (mesh_.spins && spin()) {
          moved = heard = true;
          continue;
        }
      }
      const TcpMesh::Milliseconds left = time_of_those_overtaken();
      const TcpMesh::Milliseconds time =
          std::min(left, wait.next(receiving_.awaited(), sending_.awaited(), has_news));
      const bool is_ready = sending_.is_ready(flow_);
      if (is_ready && sending_.wait()) continue;
      if (!receiving_.is_complete() && receiving_.wait()) continue;
      mesh_.watched.clear();
      if (is_ready) watch(sending_, POLLOUT);
      if (!receiving_.is_complete()) watch(receiving_, POLLIN);
      const std::size_t breaks_of_sending = mesh_.watched.size();
      watch_breaks(sending_);
      const std::size_t breaks_of_receiving = mesh_.watched.size();
      watch_breaks(receiving_);
      const std::size_t place_of_news = mesh_.watch_news();
      has_news = mesh_.wait(time, place_of_news);
      for (std::size_t i = breaks_of_sending; i < place_of_news; ++i)
        if (mesh_.watched[i].revents != 0)
          mesh_.lose_data(i < breaks_of_receiving ? sending_.peer() : receiving_.peer(),
                          cause_of_break(mesh_.watched[i].fd));
      hear_bell(sending_);
      hear_bell(receiving_);
    }
    count_traffic(flow_.bytes_to_send(), flow_.bytes_to_receive());
    if (receives) ++mesh_.counts(receiving_.peer()).received;
  }

 private:
  // An empty stream makes no message, so that none is counted.
  TcpTransfer(TcpMesh& mesh, int to, int from, Flow& flow, std::uint64_t bytes_to_send)
      : mesh_(mesh),
        flow_(flow),
        sending_(to,
                 {mesh.operation, bytes_to_send > 0 ? mesh.counts(to).sent++ : 0, bytes_to_send},
                 mesh.links_to(to)),
        receiving_(from, {mesh.operation, mesh.counts(from).received, flow.bytes_to_receive()},
                   mesh.links_to(from)) {}

  // The word of a failure may overtake what was sent before it, on another connection: what a rank
  // has completed, the others complete too, if its bytes are there soon. (All may live, and go on.)
  TcpMesh::Milliseconds time_of_those_overtaken() {
    constexpr TcpMesh::Milliseconds patience(200);
    if (!mesh_.cause.is_set()) return TcpMesh::Milliseconds::max();
    if (mesh_.has_failed) mesh_.throw_if_failed();
    const auto now = TcpMesh::Clock::now();
    if (!mesh_.overtaken_until) mesh_.overtaken_until = now + patience;
    if (now >= *mesh_.overtaken_until) mesh_.throw_if_failed();
    return std::chrono::ceil<TcpMesh::Milliseconds>(*mesh_.overtaken_until - now);
  }

  bool send_some() {
    asio::error_code error;
    const bool moved = sending_.send_some(flow_, error);
    if (error) mesh_.lose_data(sending_.peer(), error);
    return moved;
  }

  bool receive_some() {
    asio::error_code error;
    const bool moved = receiving_.receive_some(flow_, mesh_.operation_bytes, error);
    if (!receiving_.fits()) mesh_.out_of_step(receiving_);
    if (error) mesh_.lose_data(receiving_.peer(), error);
    return moved;
  }

  bool spin() {
    const auto end = TcpMesh::Clock::now() + std::chrono::microseconds(50);
    do {
      if (send_some() || receive_some()) return true;
    } while (TcpMesh::Clock::now() < end);
    return false;
  }

  void watch(const TcpMessage& message, short events) {
    if (message.links().pipe)
      mesh_.watch(message.links().data[0], POLLIN);
    else
      mesh_.watch(message.connection(), events);
  }

  // A connection whose turn has not come yet may be broken.
  void watch_breaks(const TcpMessage& message) {
    if (message.is_complete() || message.links().data.size() == 1) return;
    for (TcpSocket& socket : message.links().data) mesh_.watch(socket, half_closed);
  }

  void hear_bell(const TcpMessage& message) {
    if (message.is_complete() || !message.links().pipe) return;
    asio::error_code error;
    message.hear(error);
    if (error) mesh_.lose_data(message.peer(), error);
  }

  TcpMesh& mesh_;
  Flow& flow_;
  TcpSending sending_;
  TcpReceiving receiving_;
};

}  // namespace detail

struct Tcp::Impl {
  detail::TcpMesh mesh;
  std::mutex busy{};  // held while the connections are in use
};

LOCKSTEP_INLINE Tcp::Tcp(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
LOCKSTEP_INLINE Tcp::Tcp(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp& Tcp::operator=(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp::~Tcp() = default;

LOCKSTEP_INLINE Tcp Tcp::connect(const Rendezvous& rendezvous,
                                 const CommunicationOptions& options) {
  std::unique_ptr<Impl> impl(new Impl{{rendezvous, options}});
  impl->mesh.connect(rendezvous);
  return Tcp(std::move(impl));
}

LOCKSTEP_INLINE int Tcp::rank() const noexcept { return impl_->mesh.rank; }
LOCKSTEP_INLINE int Tcp::size() const noexcept { return impl_->mesh.size(); }

LOCKSTEP_INLINE std::string Tcp::name(int rank) const { return impl_->mesh.names.shortly(rank); }

LOCKSTEP_INLINE void Tcp::begin(Operation operation) noexcept {
  impl_->mesh.operation = operation;
  impl_->mesh.operation_begin = detail::TcpMesh::Clock::now();
  impl_->mesh.operation_bytes = 0;
}

LOCKSTEP_INLINE void Tcp::transfer(int to, int from, Flow& flow) {
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.throw_if_unusable();
  impl_->mesh.check_partners(to, from);
  detail::TcpTransfer(impl_->mesh, to, from, flow).run();
}

LOCKSTEP_INLINE void Tcp::attach(int peer, std::unique_ptr<detail::HostPipe> pipe) {
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.links_to(peer).pipe = std::move(pipe);
}

LOCKSTEP_INLINE void Tcp::await(int peer, ExternalEvent& event) {
  const std::lock_guard lock(impl_->busy);
  detail::TcpWait wait(impl_->mesh);
  for (;;) {
    // Asked first: a failure after the event belongs to the next operation.
    const bool has_failed = impl_->mesh.cause.is_set();
    if (event.has_come()) return;
    if (has_failed) impl_->mesh.throw_if_failed();
    impl_->mesh.throw_if_unusable();
    // A failure does not wake this thread.
    event.sleep(std::min(wait.next(peer, -1, false), std::chrono::milliseconds(20)));
  }
}

LOCKSTEP_INLINE void Tcp::fail(CollectiveFailure failure) {
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.fail(std::move(failure));
}

LOCKSTEP_INLINE std::string Tcp::calls() {
  const std::lock_guard lock(impl_->busy);
  return impl_->mesh.calls({});
}

LOCKSTEP_INLINE void Tcp::check() {
  if (!impl_->mesh.cause.is_set() && !impl_->mesh.is_closed) return;
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.throw_if_failed();
  impl_->mesh.throw_if_unusable();
}

LOCKSTEP_INLINE void Tcp::abort(std::string_view reason, ExitCode code) noexcept {
  detail::TcpMesh& mesh = impl_->mesh;
  try {
    mesh.has_failed = true;
    mesh.control.settle({.failed_rank = mesh.rank, .reason = std::string(reason), .code = code});
  } catch (...) {  // out of memory: the others see the connection closed
  }
}

LOCKSTEP_INLINE ActivityBoard& Tcp::activity() noexcept { return impl_->mesh.activity; }

LOCKSTEP_INLINE void Tcp::close() noexcept {
  if (impl_ == nullptr) return;
  detail::TcpMesh& mesh = impl_->mesh;
  try {
    const std::lock_guard lock(impl_->busy);
    if (!mesh.is_closed && !mesh.cause.is_set()) detail::say_goodbye(mesh);
  } catch (const std::exception& error) {
    log_warning(concat({"at the end of the work: ", error.what()}));
  }
  const std::lock_guard lock(impl_->busy);
  mesh.is_closed = true;
  mesh.control.close();
  mesh.close_sockets();
}

}}  // namespace lockstep
