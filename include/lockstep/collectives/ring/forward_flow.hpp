// Broadcast and all-gather on a ring: each rank passes on what arrives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Slices of an array travel around a ring. A rank sends slices first, first - 1, first - 2, ...
/// (modulo their number) and receives them from first - 1 on; the first `ready` bytes that it sends
/// are there from the begin, each later one has just been received.
class ForwardFlow final : public Flow {
 public:
  struct Plan {
    std::size_t slice_bytes;
    int slices;
    int first_sent;         ///< slice
    int first_received;     ///< slice
    std::uint64_t send;     ///< bytes
    std::uint64_t receive;  ///< bytes
    std::uint64_t ready;    ///< bytes
  };

  /// Each of `ranks` has a slice, and wants all.
  [[nodiscard]] static ForwardFlow all_gather(std::span<std::byte> all, int rank,
                                              int ranks) noexcept {
    const std::size_t slice = all.size() / static_cast<std::size_t>(ranks);
    const std::uint64_t others = all.size() - slice;
    return {all, {slice, ranks, rank, wrap_rank(rank - 1, ranks), others, others, slice}};
  }

  /// The root has all, and all ranks want it; the ring ends before the root.
  [[nodiscard]] static ForwardFlow broadcast(std::span<std::byte> bytes, int rank, int root,
                                             int ranks) noexcept {
    const int distance = wrap_rank(rank - root, ranks);
    const std::uint64_t all = bytes.size();
    return {bytes,
            {bytes.size(), 1, 0, 0, distance == ranks - 1 ? 0 : all, distance == 0 ? 0 : all,
             distance == 0 ? all : 0}};
  }

  [[nodiscard]] std::uint64_t bytes_to_send() const override { return plan_.send; }
  [[nodiscard]] std::uint64_t bytes_to_receive() const override { return plan_.receive; }
  [[nodiscard]] std::uint64_t rest_of_part_to_send() const override {
    return rest_of_slice(sent_, plan_.send);
  }
  [[nodiscard]] std::uint64_t rest_of_part_to_receive() const override {
    return rest_of_slice(received_, plan_.receive);
  }
  [[nodiscard]] std::span<const std::byte> outgoing() override {
    return range(plan_.first_sent, sent_, std::min(plan_.send, plan_.ready + received_));
  }
  void sent(std::size_t bytes) override { sent_ += bytes; }
  [[nodiscard]] std::span<std::byte> incoming() override {
    return range(plan_.first_received, received_, plan_.receive);
  }
  void received(std::size_t bytes) override { received_ += bytes; }

 private:
  ForwardFlow(std::span<std::byte> bytes, const Plan& plan) noexcept : bytes_(bytes), plan_(plan) {}

  [[nodiscard]] std::uint64_t rest_of_slice(std::uint64_t position,
                                            std::uint64_t end) const noexcept {
    if (position >= end) return 0;
    return std::min<std::uint64_t>(plan_.slice_bytes - position % plan_.slice_bytes,
                                   end - position);
  }

  // The part of stream positions [position, end) that lies in one slice.
  [[nodiscard]] std::span<std::byte> range(int first, std::uint64_t position,
                                           std::uint64_t end) const noexcept {
    if (position >= end) return {};
    const std::uint64_t slices_before = position / plan_.slice_bytes;
    const std::size_t offset = position % plan_.slice_bytes;
    const auto slice =
        static_cast<std::size_t>(wrap_rank(first - static_cast<int>(slices_before), plan_.slices));
    return bytes_.subspan(slice * plan_.slice_bytes + offset,
                          std::min<std::uint64_t>(plan_.slice_bytes - offset, end - position));
  }

  std::span<std::byte> bytes_;
  Plan plan_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
