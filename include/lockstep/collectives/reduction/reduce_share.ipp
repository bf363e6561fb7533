#pragma once

#include <algorithm>
#include <cstring>

#include "lockstep/collectives/reduction/reduce_share.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/kernels/sum_to_all.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Elements [begin, begin + count) of a whole array, block by block: f(the block's first rank,
/// offset from begin, elements).
template <class F>
void for_blocks(std::size_t begin, std::size_t count, int ranks, F f) {
  for (std::size_t i = 0; i < count;) {
    const std::size_t block = (begin + i) / block_elements;
    const std::size_t n = std::min(count - i, (block + 1) * block_elements - begin - i);
    f(Partition(begin + count, ranks).first_rank(block), i, n);
    i += n;
  }
}

/// As many arrays as sum_share_for_all has a place for.
inline constexpr int most_summed_at_once = 64;

/// Floating-point sums go from registers to all arrays.
template <class T>
void sum_share_for_all(const Piece& share, int ranks, std::size_t begin, const RankArrays& arrays) {
  for_blocks(begin + share.offset, share.count, ranks,
             [&](int first_rank, std::size_t offset, std::size_t n) {
               T* elements[most_summed_at_once];
               for (int k = 0; k < ranks; ++k)
                 elements[k] = reinterpret_cast<T*>(arrays(wrap_rank(first_rank + k, ranks))) +
                               share.offset + offset;
               kernels::sum_to_all<T>(elements, static_cast<std::size_t>(ranks), n);
             });
}

LOCKSTEP_INLINE void combine_ranks(const Combination& how, void* target, int first, int ranks,
                                   std::size_t count, ConstRankArrays arrays) {
  combine(how, target, arrays(first), arrays(wrap_rank(first + 1, ranks)), count);
  for (int k = 2; k < ranks; ++k)
    combine(how, target, target, arrays(wrap_rank(first + k, ranks)), count);
}

LOCKSTEP_INLINE void combine_range(const Combination& how, void* target, std::size_t begin,
                                   std::size_t count, int ranks, ConstRankArrays arrays) {
  for_blocks(begin, count, ranks, [&](int first_rank, std::size_t offset, std::size_t n) {
    const std::size_t bytes = offset * size_of(how.type);
    combine_ranks(how, static_cast<std::byte*>(target) + bytes, first_rank, ranks, n,
                  [&](int r) { return arrays(r) + bytes; });
  });
}

LOCKSTEP_INLINE Piece share_of(DataType type, int rank, int ranks, std::size_t count) noexcept {
  const std::size_t grain = cache_line / size_of(type);
  const auto shares = static_cast<std::size_t>(ranks);
  const std::size_t share = ((count + shares - 1) / shares + grain - 1) / grain * grain;
  const std::size_t first = std::min(count, share * static_cast<std::size_t>(rank));
  return {first, std::min(count - first, share)};
}

LOCKSTEP_INLINE void reduce_share(const Combination& how, int rank, int ranks, std::size_t begin,
                                  std::size_t count, ConstRankArrays arrays, ResultSink sink) {
  const auto [first, share] = share_of(how.type, rank, ranks, count);
  alignas(cache_line) std::byte results[piece_elements * sizeof(double)];
  for (std::size_t i = first; i < first + share; i += piece_elements) {
    const std::size_t n = std::min(piece_elements, first + share - i);
    const std::size_t bytes = i * size_of(how.type);
    combine_range(how, results, begin + i, n, ranks, [&](int r) { return arrays(r) + bytes; });
    sink(i, ConstNumberSpan(results, n, how.type));
  }
}

LOCKSTEP_INLINE void reduce_share_for_all(const Combination& how, int rank, int ranks,
                                          std::size_t begin, std::size_t count, RankArrays arrays) {
  if (how.op == ReduceOp::sum && how.type != DataType::int64 && ranks > 1 &&
      ranks <= most_summed_at_once) {
    const Piece share = share_of(how.type, rank, ranks, count);
    if (how.type == DataType::float32) return sum_share_for_all<float>(share, ranks, begin, arrays);
    return sum_share_for_all<double>(share, ranks, begin, arrays);
  }
  reduce_share(
      how, rank, ranks, begin, count, arrays, [&](std::size_t offset, ConstNumberSpan results) {
        for (int r = 0; r < ranks; ++r)
          std::memcpy(arrays(r) + offset * size_of(how.type), results.data(), results.size_bytes());
      });
}

LOCKSTEP_INLINE void finish_all(std::span<const double> status, NumberSpan values,
                                const UseSums* f) {
  if (f == nullptr) return;
  alignas(cache_line) std::byte results[piece_elements * sizeof(double)];
  for (std::size_t i = 0; i < values.size(); i += piece_elements) {
    const NumberSpan sums = values.subspan(i, std::min(piece_elements, values.size() - i));
    (*f)(status, i, sums, NumberSpan(results, sums.size(), sums.type()));
    std::memcpy(sums.data(), results, sums.size_bytes());
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
