// The order in which a ring's all-reduce moves the pieces of an array: index arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Which half of an all-reduce a flow makes.
enum class RingHalf : std::uint8_t {
  both,
  reduce_scatter,  ///< ends when the last rank of each group has its sums
  all_gather,      ///< begins there
};

/// Ranks stand in a circle; each sends to the next and receives from the previous one. Both streams
/// have 2 (n - 1) **segments**, one for each group of blocks that passes (see Partition): in the
/// first n - 1 the receiver adds its own values to partial sums, in the others it takes over
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
  /// Whether this rank adds its own values to segment s of what it receives.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
