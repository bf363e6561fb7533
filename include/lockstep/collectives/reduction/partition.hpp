// Which rank adds what, in which order: the index arithmetic of the numerics contract.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// An array is cut into blocks of this many elements, counted from its first element. Changing it
/// changes results.
inline constexpr std::size_t block_elements = std::size_t{1} << 16;

/// A range of elements.
struct Piece {
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// How an array of `elements` is summed over `ranks` ranks.
///
/// Block i holds elements [i * block_elements, (i + 1) * block_elements). Its sum is
///     ((x[s] + x[s + 1]) + x[s + 2]) + ... + x[s + ranks - 1]
/// with s = i mod ranks, and indices modulo ranks,
/// whatever the algorithm, the transport and the number of threads: floating-point addition is not
/// associative, so this order is what makes results equal bit for bit. It depends on an element's
/// offset in its array and on nothing else. A status that goes along with an array is a block of
/// its own that starts at rank 0.
///
/// The blocks that start at the same rank are a **group**: group g holds blocks g, g + ranks, g + 2
/// * ranks, ...
class Partition {
 public:
  constexpr Partition(std::size_t elements, int ranks) noexcept
      : elements_(elements), ranks_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] constexpr std::size_t elements() const noexcept { return elements_; }
  [[nodiscard]] constexpr int ranks() const noexcept { return static_cast<int>(ranks_); }
  [[nodiscard]] constexpr std::size_t blocks() const noexcept {
    return elements_ / block_elements + (elements_ % block_elements != 0);
  }

  /// The last block may be shorter.
  [[nodiscard]] constexpr Piece block(std::size_t i) const noexcept {
    const std::size_t offset = i * block_elements;
    return {offset, std::min(block_elements, elements_ - offset)};
  }

  /// The rank whose value is the first of the block's sum.
  [[nodiscard]] constexpr int first_rank(std::size_t i) const noexcept {
    return static_cast<int>(i % ranks_);
  }
  /// The rank whose value is the last one, and which has the sum after a reduce-scatter.
  [[nodiscard]] constexpr int last_rank(std::size_t i) const noexcept {
    return static_cast<int>((i + ranks_ - 1) % ranks_);
  }
  /// The group whose last rank this is.
  [[nodiscard]] constexpr int group_ending_at(int rank) const noexcept {
    return (rank + 1) % static_cast<int>(ranks_);
  }

  /// Number of blocks in group g.
  [[nodiscard]] constexpr std::size_t group_size(int g) const noexcept {
    const auto first = static_cast<std::size_t>(g);
    return blocks() <= first ? 0 : (blocks() - first - 1) / ranks_ + 1;
  }

  /// Whether ranks that take a group each have about the same: with 8 blocks a rank, no group has
  /// over an eighth more than another.
  [[nodiscard]] constexpr bool is_fair() const noexcept { return blocks() >= ranks_ * 8; }

  /// Elements of group g.
  [[nodiscard]] constexpr std::size_t group_elements(int g) const noexcept {
    std::size_t elements = 0;
    for (std::size_t k = 0; k < group_size(g); ++k) elements += group_block(g, k).count;
    return elements;
  }
  /// Elements that a rank sends in an all-reduce round the ring: all groups but the one that ends
  /// with it, and then all but the one that the next rank has.
  [[nodiscard]] constexpr std::size_t sent_by(int rank) const noexcept {
    const int next = group_ending_at(rank);
    return ranks_ == 1
               ? 0
               : 2 * elements_ - group_elements(next) - group_elements(group_ending_at(next));
  }

  /// The k-th block of group g.
  [[nodiscard]] constexpr Piece group_block(int g, std::size_t k) const noexcept {
    return block(static_cast<std::size_t>(g) + k * ranks_);
  }

 private:
  std::size_t elements_;
  std::size_t ranks_;
};

/// value modulo ranks, in [0, ranks), for value >= -ranks.
[[nodiscard]] constexpr int wrap_rank(int value, int ranks) noexcept {
  return (value + ranks) % ranks;
}

}}  // namespace lockstep
