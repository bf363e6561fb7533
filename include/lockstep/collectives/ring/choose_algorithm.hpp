// Which algorithm an all-reduce takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Each of them forms the sums of Partition.
enum class Algorithm : std::uint8_t {
  gather,  ///< every rank fetches all arrays and sums them itself (reduce_gathered)
  ring,    ///< a reduce-scatter and an all-gather round the ring (RingFlow)
};

/// Whether an array is long for `ranks` ranks, wherever they are (that must not show in the sums):
/// then the ring takes less time.
[[nodiscard]] constexpr bool is_long(std::size_t bytes, int ranks) noexcept {
  constexpr std::size_t gathered_bytes = std::size_t{512} << 10;  // of all ranks
  return bytes * static_cast<std::size_t>(ranks) > gathered_bytes;
}

/// Whether a wire of half precision rounds such an array.
[[nodiscard]] constexpr bool rounds(CommunicationImplementation wanted, std::size_t bytes,
                                    int ranks) noexcept {
  return wanted == CommunicationImplementation::ring || is_long(bytes, ranks);
}

/// For `bytes` of each of `ranks` ranks, of which at most `together` consecutive ones are on one
/// host: they exchange data without using its link. The figures are measured on two to eight
/// processes of one machine (benchmarks/all_reduce.cpp); benchmarks/step_model.awk models several
/// ranks on a host.
[[nodiscard]] constexpr Algorithm choose_algorithm(CommunicationImplementation wanted,
                                                   std::size_t bytes, int ranks,
                                                   std::size_t together) noexcept {
  if (wanted == CommunicationImplementation::ring) return Algorithm::ring;
  if (wanted == CommunicationImplementation::gather) return Algorithm::gather;
  // Each of the ranks on a host fetches what all ranks of the others have, so that their link
  // carries the square of their number; in the ring, it carries what one rank on each host would.
  constexpr std::size_t on_link = std::size_t{32} << 10;
  const bool fits_link = together == 1 || bytes * together * together <= on_link;
  return !is_long(bytes, ranks) && fits_link ? Algorithm::gather : Algorithm::ring;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
