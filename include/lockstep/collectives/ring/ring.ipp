#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE GatheredMessages::GatheredMessages(Buffer& memory, std::size_t bytes, int rank,
                                                   int ranks)
    : memory_(memory), bytes_(bytes), rank_(rank), ranks_(ranks) {
  const std::size_t all = stride() * static_cast<std::size_t>(ranks);
  if (memory_.size() < all) memory_ = Buffer(all);
}

LOCKSTEP_INLINE void GatheredMessages::exchange(RingTransfer transfer) {
  for (int distance = 1; distance < ranks_; distance *= 2) {
    // Without the pad of the last one, so that ranks of different lengths notice.
    const std::size_t moved =
        static_cast<std::size_t>(std::min(distance, ranks_ - distance) - 1) * stride() + bytes_;
    SpanFlow flow({memory_.data(), moved},
                  {memory_.data() + static_cast<std::size_t>(distance) * stride(), moved});
    transfer(wrap_rank(rank_ - distance, ranks_), wrap_rank(rank_ + distance, ranks_), flow);
  }
}

LOCKSTEP_INLINE void reduce_gathered(RingTransfer transfer, int rank, int ranks, Buffer& memory,
                                     std::span<double> status, NumberSpan values, ReduceOp op) {
  GatheredMessages messages(memory, status.size_bytes() + values.size_bytes(), rank, ranks);
  std::byte* const own = messages.of(rank).data();
  if (!status.empty()) std::memcpy(own, status.data(), status.size_bytes());
  if (!values.empty()) std::memcpy(own + status.size_bytes(), values.data(), values.size_bytes());
  messages.exchange(transfer);
  combine_ranks({DataType::float64, op}, status.data(), 0, ranks, status.size(),
                [&](int r) { return messages.of(r).data(); });
  combine_range({values.type(), op}, values.data(), 0, values.size(), ranks,
                [&](int r) { return messages.of(r).data() + status.size_bytes(); });
}

LOCKSTEP_INLINE RingEngine::RingEngine(int rank, int size, CommunicationOptions options,
                                       int together)
    : AnyCollective(rank, size, {.keep_residuals = options.error_feedback, .shard = true}),
      options_(std::move(options)),
      together_(static_cast<std::size_t>(together)) {
  options_.validate();
}

LOCKSTEP_INLINE void RingEngine::all_reduce(NumberSpan values, ReduceOp op) {
  reduce({}, values, op, Wire::native);
}

LOCKSTEP_INLINE void RingEngine::all_reduce(std::span<double> status, NumberSpan values) {
  reduce(status, values, ReduceOp::sum, wire_of(values));
}

LOCKSTEP_INLINE void RingEngine::reduce_scatter_blocks(NumberSpan values) {
  if (size() == 1) return;
  begin(Operation::reduce_scatter);
  const Wire wire = wire_of(values);
  RingFlow flow(staging_, pack_bytes(values, wire), rank(), size(), {}, values, ReduceOp::sum, wire,
                wire == Wire::native ? std::span<float>() : residuals_of(values),
                RingHalf::reduce_scatter);
  transfer(next(), previous(), flow);
}

LOCKSTEP_INLINE void RingEngine::all_gather_blocks(NumberSpan values) {
  if (size() == 1) return;
  begin(Operation::all_gather);
  RingFlow flow(staging_, pack_bytes(values, Wire::native), rank(), size(), {}, values,
                ReduceOp::sum, Wire::native, {}, RingHalf::all_gather);
  transfer(next(), previous(), flow);
}

LOCKSTEP_INLINE void RingEngine::broadcast(std::span<std::byte> bytes, int root) {
  check_root(root, size());
  if (size() == 1) return;
  begin(Operation::broadcast);
  auto flow = ForwardFlow::broadcast(bytes, rank(), root, size());
  transfer(next(), previous(), flow);
}

LOCKSTEP_INLINE void RingEngine::all_gather(std::span<const std::byte> mine,
                                            std::span<std::byte> all) {
  check_lengths(mine.size(), all.size(), size());
  if (!mine.empty())
    std::memmove(all.data() + mine.size() * static_cast<std::size_t>(rank()), mine.data(),
                 mine.size());
  if (size() == 1) return;
  begin(Operation::all_gather);
  auto flow = ForwardFlow::all_gather(all, rank(), size());
  transfer(next(), previous(), flow);
}

LOCKSTEP_INLINE void RingEngine::barrier() {
  begin(Operation::barrier);
  const std::byte token{1};
  for (int distance = 1; distance < size(); distance *= 2) {
    std::byte heard{};
    SpanFlow flow({&token, 1}, {&heard, 1});
    transfer(wrap_rank(rank() + distance, size()), wrap_rank(rank() - distance, size()), flow);
  }
}

// A block that goes round as a whole keeps one link busy at a time. So where there are fewer than
// two blocks for each rank, packs are as small as it takes to keep all links busy, down to what
// costs as much to send as its bytes do: the ring then is a pipeline, whatever the array's length.
// Returns bytes on the wire.
LOCKSTEP_INLINE std::size_t RingEngine::pack_bytes(NumberSpan values, Wire wire) const noexcept {
  constexpr std::size_t shortest = std::size_t{32} << 10, usual = std::size_t{256} << 10;
  constexpr auto longest =
      static_cast<std::int64_t>(block_elements * sizeof(double));  // packs end with their block
  const std::size_t on_wire =
      wire == Wire::native ? values.size_bytes() : values.size() * sizeof(std::uint16_t);
  const std::size_t bytes =
      options_.bytes_per_pack > 0
          ? static_cast<std::size_t>(std::min(options_.bytes_per_pack, longest))
          : std::clamp(on_wire / static_cast<std::size_t>(2 * size()), shortest, usual);
  return (bytes + 63) / 64 * 64;
}

LOCKSTEP_INLINE void RingEngine::reduce(std::span<double> status, NumberSpan values, ReduceOp op,
                                        Wire wire) {
  if (size() == 1) return;
  begin(Operation::all_reduce);
  const std::size_t bytes = status.size_bytes() + values.size_bytes();
  const CommunicationImplementation wanted = options_.implementation;
  if (choose_algorithm(wanted, bytes, size(), together_) == Algorithm::gather)
    return reduce_gathered([this](int to, int from, Flow& flow) { transfer(to, from, flow); },
                           rank(), size(), gathered_, status, values, op);
  if (!rounds(wanted, bytes, size())) wire = Wire::native;
  RingFlow flow(staging_, pack_bytes(values, wire), rank(), size(), status, values, op, wire,
                wire == Wire::native ? std::span<float>() : residuals_of(values));
  transfer(next(), previous(), flow);
}

LOCKSTEP_INLINE void RingEngine::keep_residuals(std::span<const float> values,
                                                std::span<float> residuals) {
  std::erase_if(kept_, [&](const Kept& kept) { return kept.values.data() == values.data(); });
  if (!residuals.empty()) kept_.push_back({values, residuals});
}

LOCKSTEP_INLINE std::span<float> RingEngine::residuals_of(NumberSpan values) const noexcept {
  const auto* const first = reinterpret_cast<const float*>(values.data());
  for (const Kept& kept : kept_) {
    const float* const begin = kept.values.data();
    if (std::less_equal<>()(begin, first) &&
        std::less_equal<>()(first + values.size(), begin + kept.values.size()))
      return kept.residuals.subspan(static_cast<std::size_t>(first - begin), values.size());
  }
  return {};
}

}}}  // namespace lockstep::detail
