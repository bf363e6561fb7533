// Which process has a place in the cluster during start-up; knows nothing of sockets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Where the connections to a peer have their place once they stand. They have numbers: the one for
/// control, and those for data. All of them lead to one process of the peer, the one whose
/// connection for control stands. `Connection` is a pointer to something with the `incarnation` of
/// the process on the other side.
template <class Connection>
struct StartupPlace {
  static constexpr std::size_t control_link = 0;
  static constexpr std::size_t first_data_link = 1;

  /// How long two processes may contend for a place, and how often one asks.
  static constexpr auto contest_interval = std::chrono::milliseconds(200);
  static constexpr auto contest_timeout = std::chrono::seconds(2);

  enum class Contest {
    goes_on,   ///< the older process has not answered yet
    prevails,  ///< the guest has the place: the older process is gone, or silent
    twins,     ///< both are there
  };

  explicit StartupPlace(std::size_t count) : links(count) {}

  [[nodiscard]] const Connection& control() const noexcept { return links[control_link]; }
  [[nodiscard]] bool is_complete() const noexcept {
    return std::find(links.begin(), links.end(), nullptr) == links.end();
  }
  /// Whether another process than this one has it.
  [[nodiscard]] bool is_anothers(std::uint64_t incarnation) const noexcept {
    return control() != nullptr && control()->incarnation != incarnation;
  }

  /// A guest has contended for the place for so long; the process that has it has been asked, and
  /// has answered since or not.
  [[nodiscard]] Contest contest(std::uint64_t guest, bool has_answered,
                                std::chrono::steady_clock::duration time) const noexcept {
    if (!is_anothers(guest)) return Contest::prevails;
    if (has_answered) return Contest::twins;
    return time >= contest_timeout ? Contest::prevails : Contest::goes_on;
  }

  /// The connection gets its place. Calls drop(link, connection) for the one that had it, and for
  /// all of another process.
  template <class Drop>
  void put(std::size_t link, const Connection& connection, Drop drop) {
    if (const Connection former = std::exchange(links[link], connection)) drop(link, former);
    for (std::size_t other = 0; other < links.size(); ++other)
      if (links[other] != nullptr && links[other]->incarnation != connection->incarnation)
        drop(other, std::exchange(links[other], nullptr));
  }

  std::vector<Connection> links;  ///< null while it does not stand
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
