// Gathering short messages in few rounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The messages of all ranks, of equal length, in a memory of its own: slot j holds that of rank + j (modulo the ranks). In round k
/// each rank sends its first 2^k slots to the rank that stands 2^k before it, and receives as many from behind, so that ceil(log2 n)
/// rounds do for any number of ranks; two ranks just swap (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all
/// communications in multiport message-passing systems", 1997).
class GatheredMessages {
 public:
  GatheredMessages(Buffer& memory, std::size_t bytes, int rank, int ranks)
      : memory_(memory), bytes_(bytes), rank_(rank), ranks_(ranks) {
    const std::size_t all = stride() * static_cast<std::size_t>(ranks);
    if (memory_.size() < all) memory_ = Buffer(all);
  }

  /// The message of one rank. Aligned to cache lines.
  [[nodiscard]] std::span<std::byte> of(int rank) noexcept {
    return {memory_.data() + static_cast<std::size_t>(wrap_rank(rank - rank_, ranks_)) * stride(), bytes_};
  }

  /// With this rank's own message in its place, fetches those of the others.
  template <Transport T>
  void exchange(T& transport) {
    for (int distance = 1; distance < ranks_; distance *= 2) {
      // Without the pad of the last one, so that ranks of different lengths notice.
      const std::size_t moved = static_cast<std::size_t>(std::min(distance, ranks_ - distance) - 1) * stride() + bytes_;
      SpanFlow flow({memory_.data(), moved}, {memory_.data() + static_cast<std::size_t>(distance) * stride(), moved});
      transport.transfer(wrap_rank(rank_ - distance, ranks_), wrap_rank(rank_ + distance, ranks_), flow);
    }
  }

 private:
  [[nodiscard]] std::size_t stride() const noexcept { return (bytes_ + 63) / 64 * 64; }

  Buffer& memory_;
  std::size_t bytes_;
  int rank_;
  int ranks_;
};

/// All-reduce of a status and an array by one gathering.
template <ReduceOp op, Reducible E, Transport T>
void reduce_gathered(T& transport, Buffer& memory, std::span<double> status, std::span<E> values) {
  const int ranks = transport.size();
  GatheredMessages messages(memory, status.size_bytes() + values.size_bytes(), transport.rank(), ranks);
  std::byte* const own = messages.of(transport.rank()).data();
  if (!status.empty()) std::memcpy(own, status.data(), status.size_bytes());
  if (!values.empty()) std::memcpy(own + status.size_bytes(), values.data(), values.size_bytes());
  messages.exchange(transport);
  combine_ranks<op>(status.data(), 0, ranks, status.size(),
                    [&](int r) { return reinterpret_cast<const double*>(messages.of(r).data()); });
  combine_range<op>(values.data(), 0, values.size(), ranks,
                    [&](int r) { return reinterpret_cast<const E*>(messages.of(r).data() + status.size_bytes()); });
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
