// Combining the arrays of all ranks where one can read them all.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/collectives/combine.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/partition.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// target[i] = the combination of data(r)[i] over all ranks r, in their order from `first` on. data(r) is a const T*.
template <ReduceOp op, Reducible T, class Data>
void combine_ranks(T* target, int first, int ranks, std::size_t count, Data data) {
  combine<op>(target, data(first), data(wrap_rank(first + 1, ranks)), count);
  for (int k = 2; k < ranks; ++k)
    combine<op>(target, static_cast<const T*>(target), data(wrap_rank(first + k, ranks)), count);
}

/// The same for `count` elements from element `begin` of a whole array on, in the order of Partition.
template <ReduceOp op, Reducible T, class Data>
void combine_range(T* target, std::size_t begin, std::size_t count, int ranks, Data data) {
  for (std::size_t i = 0; i < count;) {
    const std::size_t block = (begin + i) / block_elements;
    const std::size_t n = std::min(count - i, (block + 1) * block_elements - begin - i);
    combine_ranks<op>(target + i, Partition(begin + count, ranks).first_rank(block), ranks, n,
                      [&](int r) { return data(r) + i; });
    i += n;
  }
}

/// The pieces in which shares are worked on stay in the nearest cache.
inline constexpr std::size_t piece_elements = 1024;

/// One of `ranks` shares of the same: gives the results a piece at a time, sink(offset from begin, results, count).
template <ReduceOp op, Reducible T, class Data, class Sink>
void reduce_share(int rank, int ranks, std::size_t begin, std::size_t count, Data data, Sink sink) {
  constexpr std::size_t grain = cache_line / sizeof(T);
  const auto shares = static_cast<std::size_t>(ranks);
  const std::size_t share = ((count + shares - 1) / shares + grain - 1) / grain * grain;
  const std::size_t first = std::min(count, share * static_cast<std::size_t>(rank));
  const std::size_t end = std::min(count, first + share);
  alignas(cache_line) T results[piece_elements];
  for (std::size_t i = first; i < end; i += piece_elements) {
    const std::size_t n = std::min(piece_elements, end - i);
    combine_range<op>(results, begin + i, n, ranks, [&](int r) { return data(r) + i; });
    sink(i, static_cast<const T*>(results), n);
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
