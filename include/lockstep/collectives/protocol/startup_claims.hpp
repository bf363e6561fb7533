// Processes that claim a place in the cluster and do not fit it; knows nothing of sockets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Any process may say once that it is rank r of this cluster, with a different configuration of
/// it. A place is **contested** while the same process keeps saying so and none comes that fits.
/// Only a lasting contest ends a start-up: workers that are configured differently keep claiming,
/// while a stranger goes away, or the true worker comes.
class StartupClaims {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr Clock::duration longest_grace = std::chrono::seconds(2);
  /// A process whose place is contested asks again after this time.
  static constexpr auto interval = std::chrono::milliseconds(200);

  StartupClaims(std::size_t ranks, std::chrono::milliseconds startup_timeout)
      : grace_(std::min<Clock::duration>(longest_grace, startup_timeout / 4)), claims_(ranks) {}

  /// A caller claims the place of `rank`. Returns whether the place has been contested for long
  /// enough to end the start-up.
  [[nodiscard]] bool ends_for_callee(int rank, std::uint64_t incarnation, Clock::time_point now) {
    return contested(rank, incarnation, now) >= grace_;
  }

  /// The process at the address of `rank` has refused this worker; with `verdict` it says that it
  /// ends for that reason, which counts only if that process has been there for a while. Returns
  /// whether that ends the start-up.
  [[nodiscard]] bool ends_for_caller(int rank, std::uint64_t incarnation, bool verdict,
                                     Clock::time_point now) {
    const auto time = contested(rank, incarnation, now);
    return time >= 2 * grace_ || (verdict && time >= grace_ / 2);
  }

  /// A process that fits has the place.
  void settle(int rank) noexcept { claims_[static_cast<std::size_t>(rank)].reset(); }

 private:
  struct Claim {
    std::uint64_t incarnation;
    Clock::time_point since;
    Clock::time_point last;
  };

  Clock::duration contested(int rank, std::uint64_t incarnation, Clock::time_point now) {
    std::optional<Claim>& claim = claims_[static_cast<std::size_t>(rank)];
    if (!claim || claim->incarnation != incarnation || now - claim->last > longest_grace)
      claim = Claim{incarnation, now, now};
    claim->last = now;
    return now - claim->since;
  }

  Clock::duration grace_;
  std::vector<std::optional<Claim>> claims_;  // by rank
};

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
