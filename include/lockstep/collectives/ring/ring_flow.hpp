// All-reduce on a ring, as one flow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/ring/ring_route.hpp"
#include "lockstep/collectives/wire.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Memory that ring flows use, one after the other.
struct RingStaging {
  Buffer received;
  Buffer encoded;
};

/// What one rank does in a ring's all-reduce of a status and an array (see RingRoute for the
/// order), or in half of one. Values are combined in packs: what has arrived of a pack waits in the
/// staging memory, and goes on to the next rank as soon as it is combined. Complete sums are
/// received right into the array.
///
/// With a half-precision wire, each rank rounds the partial sum that it sends; the rank that
/// completes a sum rounds it too, so that all hold the same bits. So each rank rounds each element
/// once. With `residuals`, one for each value, these are added to the values first, and what is
/// rounded off takes their place.
class RingFlow final : public Flow {
 public:
  /// `pack_bytes`: memory of a pack, at least 64. A wire other than native is for sums of float.
  RingFlow(RingStaging& staging, std::size_t pack_bytes, int rank, int ranks,
           std::span<double> status, NumberSpan values, ReduceOp op = ReduceOp::sum,
           Wire wire = Wire::native, std::span<float> residuals = {},
           RingHalf half = RingHalf::both);

  [[nodiscard]] std::uint64_t bytes_to_send() const override { return bytes_to_send_; }
  [[nodiscard]] std::uint64_t bytes_to_receive() const override { return bytes_to_receive_; }
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL std::uint64_t rest_of_part_to_send() const override;
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL std::uint64_t rest_of_part_to_receive() const override;
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL std::span<const std::byte> outgoing() override;
  LOCKSTEP_INLINE_VIRTUAL void sent(std::size_t bytes) override;
  [[nodiscard]] LOCKSTEP_INLINE_VIRTUAL std::span<std::byte> incoming() override;
  LOCKSTEP_INLINE_VIRTUAL void received(std::size_t bytes) override;

 private:
  [[nodiscard]] bool is_native() const noexcept { return wire_ == Wire::native; }
  [[nodiscard]] std::uint64_t group_bytes(int group) const noexcept;

  // Of the piece that is being sent: how many elements are known.
  [[nodiscard]] std::size_t ready_elements(int group) const noexcept;

  // Of the piece that is being received:
  [[nodiscard]] bool is_status() const noexcept {
    return route_.is_status(route_.received_group(received_.segment), received_.piece);
  }
  [[nodiscard]] Piece piece() const noexcept {
    return route_.elements(route_.received_group(received_.segment), received_.piece);
  }
  [[nodiscard]] std::size_t elements() const noexcept {
    return is_status() ? status_.size() : piece().count;
  }
  [[nodiscard]] std::size_t element_bytes() const noexcept {
    return is_status() ? sizeof(double) : wire_bytes_;
  }
  [[nodiscard]] std::size_t pack() const noexcept { return pack_bytes_ / element_bytes(); }
  [[nodiscard]] bool is_direct() const noexcept {
    return !route_.is_reduced(received_.segment) && (is_native() || is_status());
  }
  [[nodiscard]] NumberSpan target() const noexcept {
    return is_status() ? NumberSpan(status_) : values_.subspan(piece().offset, piece().count);
  }

  // Takes a pack out of the staging memory.
  void take(std::size_t count) noexcept;

  [[nodiscard]] std::uint16_t* encoded() noexcept {
    return reinterpret_cast<std::uint16_t*>(staging_.encoded.data());
  }

  RingStaging& staging_;
  RingRoute route_;
  std::span<double> status_;
  NumberSpan values_;
  ReduceOp op_;
  Wire wire_;
  std::span<float> residuals_;
  std::size_t wire_bytes_;  // of a value that travels
  std::size_t pack_bytes_;
  std::uint64_t bytes_to_send_ = 0;
  std::uint64_t bytes_to_receive_ = 0;
  RingPosition sent_;
  RingPosition received_;
  std::size_t out_bytes_ = 0;  // sent of the piece, or of what is encoded
  std::size_t encoded_bytes_ = 0;
  std::size_t in_bytes_ = 0;  // received, and not yet taken
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/ring/ring_flow.ipp"
#endif
