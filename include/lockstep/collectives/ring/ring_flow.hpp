// All-reduce on a ring, as one flow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Which half of an all-reduce a flow makes.
enum class RingHalf : std::uint8_t {
  both,
  reduce_scatter,  ///< ends when the last rank of each group has its sums
  all_gather,      ///< begins there
};

/// Ranks stand in a circle; each sends to the next and receives from the previous one. Both streams
/// have 2 (n - 1) **segments**, one for each group of blocks that passes (see Partition): in the
/// first n - 1 the receiver adds its values to partial sums, in the others it takes over
/// complete sums. Segment s of what a rank receives is segment s + 1 of what it sends. A segment's
/// **pieces** are the blocks of its group; a status that goes along is the first piece of group 0,
/// so that it is everywhere before most of the values are.
class RingRoute {
 public:
  constexpr RingRoute(const Partition& partition, int rank, bool has_status,
                      RingHalf half = RingHalf::both) noexcept
      : partition_(partition), rank_(rank), has_status_(has_status), half_(half) {}

  [[nodiscard]] constexpr const Partition& partition() const noexcept { return partition_; }
  /// The first segment of both streams, and their end.
  [[nodiscard]] constexpr int first_segment() const noexcept {
    return half_ == RingHalf::all_gather ? partition_.ranks() - 1 : 0;
  }
  [[nodiscard]] constexpr int segments() const noexcept {
    return (half_ == RingHalf::reduce_scatter ? 1 : 2) * (partition_.ranks() - 1);
  }
  /// Whether this rank adds its values to segment s of what it receives.
  [[nodiscard]] constexpr bool is_reduced(int segment) const noexcept {
    return segment < partition_.ranks() - 1;
  }
  /// Whether segment s of what it receives is complete with this rank's values.
  [[nodiscard]] constexpr bool is_complete(int segment) const noexcept {
    return segment >= partition_.ranks() - 2;
  }

  [[nodiscard]] constexpr int sent_group(int segment) const noexcept {
    return group(rank_ - segment);
  }
  [[nodiscard]] constexpr int received_group(int segment) const noexcept {
    return group(rank_ - 1 - segment);
  }

  [[nodiscard]] constexpr std::size_t pieces(int group) const noexcept {
    return partition_.group_size(group) + (is_status(group, 0) ? 1 : 0);
  }
  [[nodiscard]] constexpr bool is_status(int group, std::size_t piece) const noexcept {
    return has_status_ && group == 0 && piece == 0;
  }
  /// Elements of a piece that is not the status.
  [[nodiscard]] constexpr Piece elements(int group, std::size_t piece) const noexcept {
    return partition_.group_block(group, piece - (has_status_ && group == 0 ? 1 : 0));
  }

 private:
  [[nodiscard]] constexpr int group(int value) const noexcept {
    return wrap_rank(value % partition_.ranks(), partition_.ranks());
  }

  Partition partition_;
  int rank_;
  bool has_status_;
  RingHalf half_;
};

/// A position in one of the two streams.
struct RingPosition {
  int segment = 0;
  std::size_t piece = 0;
  std::size_t done = 0;  ///< elements of the piece

  /// To the next piece that there is.
  constexpr void next_piece(const RingRoute& route, bool sending) noexcept {
    ++piece;
    done = 0;
    skip_empty(route, sending);
  }
  /// Past segments without (further) pieces.
  constexpr void skip_empty(const RingRoute& route, bool sending) noexcept {
    while (segment < route.segments() &&
           piece >=
               route.pieces(sending ? route.sent_group(segment) : route.received_group(segment))) {
      ++segment;
      piece = 0;
    }
  }
};

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

  // How many elements of the piece that is being sent are known.
  [[nodiscard]] std::size_t ready_elements(int group) const noexcept;

  // About the piece that is being received:
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

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/ring/ring_flow.ipp"
#endif
