// One transfer of a flow over TCP.
#pragma once

#include <poll.h>

#include <algorithm>
#include <asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/tcp/detail/mesh.hpp"
#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/collectives/tcp/detail/waiting.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/traffic.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What Tcp::transfer() does. Something **moves** when a byte of a message has been sent or
/// received.
class TcpTransfer {
 public:
  TcpTransfer(TcpMesh& mesh, int to, int from, Flow& flow)
      : TcpTransfer(mesh, to, from, flow, flow.bytes_to_send()) {}

  void run() {
    const bool receives = !receiving_.is_complete();
    move_all();
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

  void move_all() {
    TcpWait wait(mesh_);
    bool moved = true, heard = false, has_news = false;
    for (;;) {
      for (bool sent = true, received = true; sent || received; moved = moved || sent || received) {
        sent = send_some();
        received = receive_some();
        heard = heard || received;
      }
      if (sending_.is_complete() && receiving_.is_complete()) return;
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
  }

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
    for (TcpSocket& socket : message.links().data) mesh_.watch(socket, POLLRDHUP);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
