#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "lockstep/collectives/argument_checks.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/ring/choose_algorithm.hpp"
#include "lockstep/collectives/ring/forward_flow.hpp"
#include "lockstep/collectives/ring/gather.hpp"
#include "lockstep/collectives/ring/ring_engine.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// To the next rank, from the previous one.
LOCKSTEP_INLINE void transfer_around(const TransportRef& transport, Flow& flow) {
  const int rank = transport.rank(), size = transport.size();
  transport.transfer(wrap_rank(rank + 1, size), wrap_rank(rank - 1, size), flow);
}

LOCKSTEP_INLINE RingEngine::RingEngine(CommunicationOptions options, int together)
    : options_(std::move(options)), together_(static_cast<std::size_t>(together)) {
  options_.validate();
}

LOCKSTEP_INLINE void RingEngine::all_reduce(const TransportRef& transport, NumberSpan values,
                                            ReduceOp op) {
  reduce(transport, {}, values, op, Wire::native);
}

LOCKSTEP_INLINE void RingEngine::all_reduce(const TransportRef& transport, std::span<double> status,
                                            NumberSpan values) {
  reduce(transport, status, values, ReduceOp::sum, wire_of(values));
}

LOCKSTEP_INLINE void RingEngine::reduce_scatter_blocks(const TransportRef& transport,
                                                       NumberSpan values) {
  if (transport.size() == 1) return;
  transport.begin(Operation::reduce_scatter);
  const Wire wire = wire_of(values);
  RingFlow flow(staging_, pack_bytes(values, wire, transport.size()), transport.rank(),
                transport.size(), {}, values, ReduceOp::sum, wire,
                wire == Wire::native ? std::span<float>() : residuals_of(values),
                RingHalf::reduce_scatter);
  transfer_around(transport, flow);
}

LOCKSTEP_INLINE void RingEngine::all_gather_blocks(const TransportRef& transport,
                                                   NumberSpan values) {
  if (transport.size() == 1) return;
  transport.begin(Operation::all_gather);
  RingFlow flow(staging_, pack_bytes(values, Wire::native, transport.size()), transport.rank(),
                transport.size(), {}, values, ReduceOp::sum, Wire::native, {},
                RingHalf::all_gather);
  transfer_around(transport, flow);
}

LOCKSTEP_INLINE void RingEngine::broadcast(const TransportRef& transport,
                                           std::span<std::byte> bytes, int root) {
  check_root(root, transport.size());
  if (transport.size() == 1) return;
  transport.begin(Operation::broadcast);
  auto flow = ForwardFlow::broadcast(bytes, transport.rank(), root, transport.size());
  transfer_around(transport, flow);
}

LOCKSTEP_INLINE void RingEngine::all_gather(const TransportRef& transport,
                                            std::span<const std::byte> mine,
                                            std::span<std::byte> all) {
  check_lengths(mine.size(), all.size(), transport.size());
  if (!mine.empty())
    std::memmove(all.data() + mine.size() * static_cast<std::size_t>(transport.rank()), mine.data(),
                 mine.size());
  if (transport.size() == 1) return;
  transport.begin(Operation::all_gather);
  auto flow = ForwardFlow::all_gather(all, transport.rank(), transport.size());
  transfer_around(transport, flow);
}

LOCKSTEP_INLINE void RingEngine::barrier(const TransportRef& transport) {
  const int rank = transport.rank(), size = transport.size();
  transport.begin(Operation::barrier);
  const std::byte token{1};
  for (int distance = 1; distance < size; distance *= 2) {
    std::byte heard{};
    SpanFlow flow({&token, 1}, {&heard, 1});
    transport.transfer(wrap_rank(rank + distance, size), wrap_rank(rank - distance, size), flow);
  }
}

// A block that goes round as a whole keeps one link busy at a time. So where there are fewer than
// two blocks for each rank, packs are as small as it takes to keep all links busy, down to what
// costs as much to send as its bytes do: the ring then is a pipeline, whatever the array's length.
// Of the bytes on the wire.
LOCKSTEP_INLINE std::size_t RingEngine::pack_bytes(NumberSpan values, Wire wire,
                                                   int ranks) const noexcept {
  constexpr std::size_t shortest = std::size_t{32} << 10, usual = std::size_t{256} << 10;
  constexpr auto longest =
      static_cast<std::int64_t>(block_elements * sizeof(double));  // packs end with their block
  const std::size_t on_wire =
      wire == Wire::native ? values.size_bytes() : values.size() * sizeof(std::uint16_t);
  const std::size_t bytes =
      options_.bytes_per_pack > 0
          ? static_cast<std::size_t>(std::min(options_.bytes_per_pack, longest))
          : std::clamp(on_wire / static_cast<std::size_t>(2 * ranks), shortest, usual);
  return (bytes + 63) / 64 * 64;
}

LOCKSTEP_INLINE void RingEngine::reduce(const TransportRef& transport, std::span<double> status,
                                        NumberSpan values, ReduceOp op, Wire wire) {
  if (transport.size() == 1) return;
  transport.begin(Operation::all_reduce);
  const std::size_t bytes = status.size_bytes() + values.size_bytes();
  const CommunicationImplementation wanted = options_.implementation;
  if (choose_algorithm(wanted, bytes, transport.size(), together_) == Algorithm::gather)
    return reduce_gathered(transport, gathered_, status, values, op);
  if (!rounds(wanted, bytes, transport.size())) wire = Wire::native;
  RingFlow flow(staging_, pack_bytes(values, wire, transport.size()), transport.rank(),
                transport.size(), status, values, op, wire,
                wire == Wire::native ? std::span<float>() : residuals_of(values));
  transfer_around(transport, flow);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
