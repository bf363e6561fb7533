// Finds out whether the process of a worker whose connections are lost still has its port.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/protocol/failure_consensus.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls a port, and closes its own direction at once. The process that is looked for answers with
/// its incarnation (see ControlResident). If no process has the port, or another one answers, it
/// has ended. One that closes the connection without a word may be a successor at its start. A port
/// that is held open for it, by a launcher for example, tells nothing. Never blocks.
class PortProbe {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds patience{300};

  PortProbe(const SocketName& name, std::uint64_t incarnation, Clock::time_point now)
      : incarnation_(incarnation), is_here_(is_of_this_machine(name)), end_(now + patience) {
    int error = 0;
    socket_ = begin_call(name, error);
    if (!socket_.is_open())
      conclude(PeerEvidence::Process::unknown);
    else if (error != 0 && error != EINPROGRESS)
      conclude_by(error);
  }

  [[nodiscard]] pollfd watch() const noexcept {
    return {socket_.get(), static_cast<short>(is_connected_ ? POLLIN : POLLOUT), 0};
  }
  [[nodiscard]] Clock::time_point due() const noexcept { return end_; }
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  [[nodiscard]] PeerEvidence::Process outcome() const noexcept { return outcome_; }

  /// Goes as far as it can without blocking.
  void advance(Clock::time_point now) {
    if (is_over_) return;
    pollfd watched = watch();
    if (::poll(&watched, 1, 0) > 0) is_connected_ ? read() : connected();
    if (!is_over_ && now >= end_) conclude(PeerEvidence::Process::unknown);
  }

 private:
  void connected() {
    if (const int error = socket_error(socket_.get()); error != 0) return conclude_by(error);
    if (has_met_itself(socket_.get())) return conclude(PeerEvidence::Process::ended);
    is_connected_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }

  void read() {
    const ssize_t n = ::recv(socket_.get(), &heard_[got_], heard_.size() - got_, 0);
    if (n < 0 && errno == EAGAIN) return;
    got_ += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    if (n > 0 && got_ < heard_.size()) return;
    if (n == 0) return conclude(PeerEvidence::Process::closes);
    // Reset: the port was there until a moment ago.
    const bool is_the_same = n > 0 && get_number<8>(heard_.data()) == incarnation_;
    conclude(is_the_same ? PeerEvidence::Process::lives : PeerEvidence::Process::ended);
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
  Descriptor socket_;
  Clock::time_point end_{};
  bool is_connected_ = false;
  bool is_over_ = false;
  PeerEvidence::Process outcome_ = PeerEvidence::Process::unknown;
};

/// One PortProbe for each lost rank.
class PortProbes {
 public:
  using Clock = PortProbe::Clock;

  explicit PortProbes(std::size_t ranks) : ports_(ranks) {}

  /// Where a rank listens: at its address in the list if that is a number, else at the address of
  /// its connection. Its process says that it is this `incarnation`.
  void remember(int rank, const std::string& address, int connection, std::uint64_t incarnation) {
    const Address listed = parse_address(address);
    SocketName name = ip_name(listed.host, listed.port).value_or(peer_name(connection));
    set_port(name, listed.port);
    if (name.ss_family != AF_UNSPEC)
      ports_[static_cast<std::size_t>(rank)].emplace(name, incarnation);
  }

  /// Returns false when it is not known where the rank listens.
  bool call(int rank, Clock::time_point now) {
    const auto& port = ports_[static_cast<std::size_t>(rank)];
    if (!port) return false;
    const auto& [place, incarnation] = *port;
    probes_.emplace_back(rank, PortProbe(place, incarnation, now));
    return true;
  }

  /// Adds the descriptors to watch, and returns the time at which to call advance() in any case.
  Clock::time_point watch(std::vector<pollfd>& watched) const {
    auto due = Clock::time_point::max();
    for (const auto& [rank, probe] : probes_) {
      watched.push_back(probe.watch());
      due = std::min(due, probe.due());
    }
    return due;
  }

  /// found(rank, outcome) for each probe that is over.
  template <class F>
  void advance(Clock::time_point now, F found) {
    std::erase_if(probes_, [&](auto& entry) {
      auto& [rank, probe] = entry;
      probe.advance(now);
      if (probe.is_over()) found(rank, probe.outcome());
      return probe.is_over();
    });
  }

  void clear() { probes_.clear(); }

 private:
  // By rank.
  std::vector<std::optional<std::pair<SocketName, std::uint64_t>>> ports_;
  std::vector<std::pair<int, PortProbe>> probes_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
