// How a message is spread over several connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The bytes of a message go over parallel connections in stripes of a fixed size, in turn, so that
/// both sides know without any header what travels where. Both go through the message in order:
/// what a connection brings early waits in the kernel's buffer. Each message begins on the first
/// connection, and a short one stays there.
class Stripes {
 public:
  static constexpr std::size_t stripe_bytes = std::size_t{128} << 10;

  struct Place {
    std::size_t connection;
    std::size_t bytes;  ///< from here on that travel together
  };

  explicit constexpr Stripes(std::size_t connections) noexcept : connections_(connections) {}

  /// Where the bytes of the message from `position` on travel.
  [[nodiscard]] constexpr Place at(std::uint64_t position) const noexcept {
    if (connections_ == 1) return {0, std::numeric_limits<std::size_t>::max()};
    return {position / stripe_bytes % connections_, stripe_bytes - position % stripe_bytes};
  }

 private:
  std::size_t connections_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
