// Processes that claim a place in the cluster and do not fit it; knows nothing of sockets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
