// Combining the arrays of all ranks where one can read them all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/kernels/sum_to_all.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// target[i] = the combination of data(r)[i] over all ranks r, two or more, in their order from `first` on. data(r) is a const T*.
template <ReduceOp op, Reducible T, class Data>
void combine_ranks(T* target, int first, int ranks, std::size_t count, Data data) {
  combine<op>(target, data(first), data(wrap_rank(first + 1, ranks)), count);
  for (int k = 2; k < ranks; ++k)
    combine<op>(target, static_cast<const T*>(target), data(wrap_rank(first + k, ranks)), count);
}

/// Elements [begin, begin + count) of a whole array, block by block: f(the block's first rank, offset from begin, elements).
template <class F>
void for_blocks(std::size_t begin, std::size_t count, int ranks, F f) {
  for (std::size_t i = 0; i < count;) {
    const std::size_t block = (begin + i) / block_elements;
    const std::size_t n = std::min(count - i, (block + 1) * block_elements - begin - i);
    f(Partition(begin + count, ranks).first_rank(block), i, n);
    i += n;
  }
}

/// The same for `count` elements from element `begin` of a whole array on, in the order of Partition.
template <ReduceOp op, Reducible T, class Data>
void combine_range(T* target, std::size_t begin, std::size_t count, int ranks, Data data) {
  for_blocks(begin, count, ranks, [&](int first_rank, std::size_t offset, std::size_t n) {
    combine_ranks<op>(target + offset, first_rank, ranks, n, [&](int r) { return data(r) + offset; });
  });
}

/// The pieces in which shares are worked on stay in the nearest cache.
inline constexpr std::size_t piece_elements = 1024;

/// The share of `rank` in `count` elements.
template <class T>
[[nodiscard]] constexpr Piece share_of(int rank, int ranks, std::size_t count) noexcept {
  constexpr std::size_t grain = cache_line / sizeof(T);
  const auto shares = static_cast<std::size_t>(ranks);
  const std::size_t share = ((count + shares - 1) / shares + grain - 1) / grain * grain;
  const std::size_t first = std::min(count, share * static_cast<std::size_t>(rank));
  return {first, std::min(count - first, share)};
}

/// One of `ranks` shares of the same: gives the results a piece at a time, sink(offset from begin, results, count).
template <ReduceOp op, Reducible T, class Data, class Sink>
void reduce_share(int rank, int ranks, std::size_t begin, std::size_t count, Data data, Sink sink) {
  const auto [first, share] = share_of<T>(rank, ranks, count);
  alignas(cache_line) T results[piece_elements];
  for (std::size_t i = first; i < first + share; i += piece_elements) {
    const std::size_t n = std::min(piece_elements, first + share - i);
    combine_range<op>(results, begin + i, n, ranks, [&](int r) { return data(r) + i; });
    sink(i, static_cast<const T*>(results), n);
  }
}

/// One of `ranks` shares, given to all: data(r) is a T*.
template <ReduceOp op, Reducible T, class Data>
void reduce_share_for_all(int rank, int ranks, std::size_t begin, std::size_t count, Data data) {
  constexpr int most = 64;
  if constexpr (op == ReduceOp::sum && std::is_floating_point_v<T>)
    if (ranks > 1 && ranks <= most) {
      const Piece share = share_of<T>(rank, ranks, count);
      for_blocks(begin + share.offset, share.count, ranks, [&](int first_rank, std::size_t offset, std::size_t n) {
        T* arrays[most];
        for (int k = 0; k < ranks; ++k) arrays[k] = data(wrap_rank(first_rank + k, ranks)) + share.offset + offset;
        kernels::sum_to_all<T>(arrays, static_cast<std::size_t>(ranks), n);
      });
      return;
    }
  reduce_share<op, T>(
      rank, ranks, begin, count, [&](int r) { return static_cast<const T*>(data(r)); },
      [&](std::size_t offset, const T* results, std::size_t n) {
        for (int r = 0; r < ranks; ++r) std::memcpy(data(r) + offset, results, n * sizeof(T));
      });
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
