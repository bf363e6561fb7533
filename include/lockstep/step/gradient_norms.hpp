// The norms of gradients, by which updates are clipped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sum_of_squares.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Sums of squares of the gradients of all variables, for the replicas of a process: each of them
/// computes a part, and after a barrier all read the norms. A variable is cut into blocks, whose
/// sums are added in the order of the arena: a norm does not depend on how many compute it.
class GradientNorms {
 public:
  GradientNorms() = default;

  /// For gradients that lie as in `arena`.
  template <class T>
  explicit GradientNorms(const Arena<T>& arena) {
    for (std::size_t i = arena.slices().size(); i > 0; --i) {
      const std::span<T> slice = arena.slices()[i - 1];
      const auto begin = static_cast<std::size_t>(slice.data() - arena.values().data());
      for (std::size_t done = 0; done < slice.size(); done += block_size)
        blocks_.push_back(
            {.begin = begin + done, .size = std::min(block_size, slice.size() - done)});
    }
  }

  /// Computes part `index` of `count`; `gradients` are those of the whole arena.
  template <class T>
  void compute_part(std::span<const T> gradients, std::size_t index, std::size_t count) {
    const std::size_t end = blocks_.size() * (index + 1) / count;
    for (std::size_t i = blocks_.size() * index / count; i < end; ++i)
      blocks_[i].squares =
          kernels::sum_of_squares(gradients.subspan(blocks_[i].begin, blocks_[i].size));
  }

  /// The sum of squares of what lies in elements [begin, begin + size), as far as this can be told
  /// without the others: for ranks that have a part of the gradients each.
  template <class T>
  [[nodiscard]] double squares_in(std::span<const T> gradients, std::size_t begin,
                                  std::size_t size) const {
    double sum = 0;
    for (const Block& block : blocks_) {
      const std::size_t first = std::max(block.begin, begin);
      const std::size_t end = std::min(block.begin + block.size, begin + size);
      if (first < end) sum += kernels::sum_of_squares(gradients.subspan(first, end - first));
    }
    return sum;
  }
  /// From the sums of all ranks: norm() of all variables is the root of `squares`. (That of a part
  /// of them means nothing then.)
  void set_squares(double squares) noexcept;

  /// The norm of the variables in elements [begin, end) of the arena.
  [[nodiscard]] double norm(std::size_t begin = 0,
                            std::size_t end = std::numeric_limits<std::size_t>::max()) const;

 private:
  static constexpr std::size_t block_size = 16'384;

  struct Block {
    std::size_t begin = 0;
    std::size_t size = 0;
    double squares = 0;
  };

  std::vector<Block> blocks_;  // in the order of the arena
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/gradient_norms.ipp"
#endif
