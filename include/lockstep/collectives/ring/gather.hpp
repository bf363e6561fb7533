// Gathering short messages in few rounds.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/transport_ref.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The messages of all ranks, of equal length, in a memory of its own: slot j holds that of rank +
/// j (modulo the ranks). In round k each rank sends its first 2^k slots to the rank that stands 2^k
/// before it, and receives as many from behind, so that ceil(log2 n) rounds do for any number of
/// ranks; two ranks just swap (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for
/// all-to-all communications in multiport message-passing systems", 1997).
class GatheredMessages {
 public:
  GatheredMessages(Buffer& memory, std::size_t bytes, int rank, int ranks);

  /// The message of one rank. Aligned to cache lines.
  [[nodiscard]] std::span<std::byte> of(int rank) const noexcept {
    return {memory_.data() + static_cast<std::size_t>(wrap_rank(rank - rank_, ranks_)) * stride(),
            bytes_};
  }

  /// With this rank's own message in its place, fetches those of the others.
  void exchange(const TransportRef& transport);

 private:
  [[nodiscard]] std::size_t stride() const noexcept { return (bytes_ + 63) / 64 * 64; }

  Buffer& memory_;
  std::size_t bytes_;
  int rank_;
  int ranks_;
};

/// All-reduce of a status and an array by one gathering.
void reduce_gathered(const TransportRef& transport, Buffer& memory, std::span<double> status,
                     NumberSpan values, ReduceOp op = ReduceOp::sum);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/ring/gather.ipp"
#endif
