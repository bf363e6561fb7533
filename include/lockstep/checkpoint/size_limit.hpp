// How large a file may be to be read.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The most bytes, of arrays or of anything else, that are read for a model whose state has
/// `expected` bytes of arrays. The limit leaves room for the somewhat larger file of another model,
/// so that its difference can be named. Without a model there is no limit.
[[nodiscard]] constexpr std::uint64_t size_limit(std::optional<std::uint64_t> expected) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max(), factor = 16,
                          more = std::uint64_t{1} << 28;
  if (!expected || *expected > (most - more) / factor) return most;
  return factor * *expected + more;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
