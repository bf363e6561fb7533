#pragma once

#include <algorithm>
#include <cstring>

#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/collectives/ring/gather.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE GatheredMessages::GatheredMessages(Buffer& memory, std::size_t bytes, int rank,
                                                   int ranks)
    : memory_(memory), bytes_(bytes), rank_(rank), ranks_(ranks) {
  const std::size_t all = stride() * static_cast<std::size_t>(ranks);
  if (memory_.size() < all) memory_ = Buffer(all);
}

LOCKSTEP_INLINE void GatheredMessages::exchange(const TransportRef& transport) {
  for (int distance = 1; distance < ranks_; distance *= 2) {
    // Without the pad of the last one, so that ranks of different lengths notice.
    const std::size_t moved =
        static_cast<std::size_t>(std::min(distance, ranks_ - distance) - 1) * stride() + bytes_;
    SpanFlow flow({memory_.data(), moved},
                  {memory_.data() + static_cast<std::size_t>(distance) * stride(), moved});
    transport.transfer(wrap_rank(rank_ - distance, ranks_), wrap_rank(rank_ + distance, ranks_),
                       flow);
  }
}

LOCKSTEP_INLINE void reduce_gathered(const TransportRef& transport, Buffer& memory,
                                     std::span<double> status, NumberSpan values, ReduceOp op) {
  const int ranks = transport.size();
  GatheredMessages messages(memory, status.size_bytes() + values.size_bytes(), transport.rank(),
                            ranks);
  std::byte* const own = messages.of(transport.rank()).data();
  if (!status.empty()) std::memcpy(own, status.data(), status.size_bytes());
  if (!values.empty()) std::memcpy(own + status.size_bytes(), values.data(), values.size_bytes());
  messages.exchange(transport);
  combine_ranks({DataType::float64, op}, status.data(), 0, ranks, status.size(),
                [&](int r) { return messages.of(r).data(); });
  combine_range({values.type(), op}, values.data(), 0, values.size(), ranks,
                [&](int r) { return messages.of(r).data() + status.size_bytes(); });
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
