// Finds out whether the process of a worker whose connections are lost still has its port.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/vote_tally.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls a port, and closes its own direction at once. The process that is looked for answers with
/// its incarnation (see ControlResident). If no process has the port, or another one answers, it
/// has ended. One that closes the connection without a word may be a successor at its start. A port
/// that is held open for it, by a launcher for example, tells nothing. Never blocks.
class PortProbe {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds patience{300};

  PortProbe(const sockaddr* address, socklen_t size, std::uint64_t incarnation,
            Clock::time_point now)
      : incarnation_(incarnation),
        is_here_(is_of_this_machine(address, size)),
        socket_(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        end_(now + patience) {
    if (socket_ < 0)
      conclude(PeerEvidence::Process::unknown);
    else if (::connect(socket_, address, size) != 0 && errno != EINPROGRESS)
      conclude_by(errno);
  }
  PortProbe(PortProbe&& other) noexcept { swap(other); }
  PortProbe& operator=(PortProbe&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PortProbe() {
    if (socket_ >= 0) ::close(socket_);
  }

  [[nodiscard]] pollfd watch() const noexcept {
    return {socket_, static_cast<short>(is_connected_ ? POLLIN : POLLOUT), 0};
  }
  [[nodiscard]] Clock::time_point due() const noexcept { return end_; }
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  [[nodiscard]] PeerEvidence::Process outcome() const noexcept { return outcome_; }

  /// Whether nothing stands between this process and that address. (Nothing is sent.)
  [[nodiscard]] static bool is_of_this_machine(const sockaddr* address, socklen_t size) noexcept {
    const int socket = ::socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    socklen_t own_size = sizeof own;
    const bool is_known = socket >= 0 && ::connect(socket, address, size) == 0 &&
                          ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0;
    if (socket >= 0) ::close(socket);
    if (!is_known || own.ss_family != address->sa_family) return false;
    sockaddr_storage other{};
    std::memcpy(&other, address, std::min<std::size_t>(size, sizeof other));
    const auto& own4 = reinterpret_cast<const sockaddr_in&>(own);
    const auto& other4 = reinterpret_cast<const sockaddr_in&>(other);
    const auto& own6 = reinterpret_cast<const sockaddr_in6&>(own);
    const auto& other6 = reinterpret_cast<const sockaddr_in6&>(other);
    return own.ss_family == AF_INET
               ? own4.sin_addr.s_addr == other4.sin_addr.s_addr
               : std::memcmp(&own6.sin6_addr, &other6.sin6_addr, sizeof own6.sin6_addr) == 0;
  }

  /// Goes as far as it can without blocking.
  void advance(Clock::time_point now) {
    if (is_over_) return;
    pollfd watched = watch();
    if (::poll(&watched, 1, 0) > 0) is_connected_ ? read() : connected();
    if (!is_over_ && now >= end_) conclude(PeerEvidence::Process::unknown);
  }

 private:
  void swap(PortProbe& other) noexcept {
    std::swap(incarnation_, other.incarnation_);
    std::swap(got_, other.got_);
    std::swap(heard_, other.heard_);
    std::swap(is_here_, other.is_here_);
    std::swap(socket_, other.socket_);
    std::swap(end_, other.end_);
    std::swap(is_connected_, other.is_connected_);
    std::swap(is_over_, other.is_over_);
    std::swap(outcome_, other.outcome_);
  }

  void connected() {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return conclude_by(error);
    if (has_met_itself()) return conclude(PeerEvidence::Process::ended);
    is_connected_ = true;
    ::shutdown(socket_, SHUT_WR);
  }

  void read() {
    const ssize_t n = ::recv(socket_, &heard_[got_], heard_.size() - got_, 0);
    if (n < 0 && errno == EAGAIN) return;
    got_ += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    if (n > 0 && got_ < heard_.size()) return;
    if (n == 0) return conclude(PeerEvidence::Process::closes);
    // Reset: the port was there until a moment ago.
    const bool is_the_same = n > 0 && get_number<8>(heard_.data()) == incarnation_;
    conclude(is_the_same ? PeerEvidence::Process::lives : PeerEvidence::Process::ended);
  }

  // A socket that connects to a free port of its own host may be given that very port.
  [[nodiscard]] bool has_met_itself() const {
    sockaddr_storage own{}, other{};
    socklen_t own_size = sizeof own, size = sizeof other;
    return ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
           ::getpeername(socket_, reinterpret_cast<sockaddr*>(&other), &size) == 0 &&
           std::memcmp(&own, &other, sizeof own) == 0;
  }

  void conclude_by(int error) {
    conclude(error != ECONNREFUSED ? PeerEvidence::Process::unknown
             : is_here_            ? PeerEvidence::Process::ended
                                   : PeerEvidence::Process::refused);
  }
  void conclude(PeerEvidence::Process outcome) {
    is_over_ = true;
    outcome_ = outcome;
  }

  std::uint64_t incarnation_ = 0;
  std::size_t got_ = 0;
  std::array<std::byte, 8> heard_{};
  bool is_here_ = false;
  int socket_ = -1;
  Clock::time_point end_{};
  bool is_connected_ = false;
  bool is_over_ = false;
  PeerEvidence::Process outcome_ = PeerEvidence::Process::unknown;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
