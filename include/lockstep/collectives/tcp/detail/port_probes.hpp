// The ports of the other ranks, to be called when a rank is lost.
#pragma once

#include <poll.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/collectives/tcp/detail/port_probe.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One PortProbe for each lost rank.
class PortProbes {
 public:
  using Clock = PortProbe::Clock;

  explicit PortProbes(std::size_t ranks) : ports_(ranks) {}

  /// Where a rank listens: at its address in the list if that is a number, else at the address of
  /// its connection. Its process says that it is this `incarnation`.
  void remember(int rank, const std::string& address, const TcpSocket& connection,
                std::uint64_t incarnation) {
    const Address listed = parse_address(address);
    asio::error_code error;
    asio::ip::address host = asio::ip::make_address(listed.host, error);
    if (error) host = connection.remote_endpoint(error).address();
    if (!error)
      ports_[static_cast<std::size_t>(rank)].emplace(asio::ip::tcp::endpoint(host, listed.port),
                                                     incarnation);
  }

  /// Returns false when it is not known where the rank listens.
  bool call(int rank, Clock::time_point now) {
    const auto& port = ports_[static_cast<std::size_t>(rank)];
    if (!port) return false;
    const auto& [place, incarnation] = *port;
    probes_.emplace_back(
        rank, PortProbe(place.data(), static_cast<socklen_t>(place.size()), incarnation, now));
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
  std::vector<std::optional<std::pair<asio::ip::tcp::endpoint, std::uint64_t>>> ports_;
  std::vector<std::pair<int, PortProbe>> probes_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
