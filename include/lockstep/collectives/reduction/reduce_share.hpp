// Combining the arrays of all ranks where one can read them all.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Where each rank's array is.
using RankArrays = FunctionRef<std::byte*(int rank)>;
using ConstRankArrays = FunctionRef<const std::byte*(int rank)>;
/// Gets results from element `offset` on.
using ResultSink = FunctionRef<void(std::size_t offset, ConstNumberSpan results)>;

/// The pieces in which shares are worked on, in elements, stay in the nearest cache.
inline constexpr std::size_t piece_elements = 1024;

/// target[i] = element i of all arrays combined, of two ranks or more, in their order from `first`
/// on.
void combine_ranks(const Combination& how, void* target, int first, int ranks, std::size_t count,
                   ConstRankArrays arrays);

/// The same for `count` elements from element `begin` of a whole array on, in the order of
/// Partition. The arrays begin there.
void combine_range(const Combination& how, void* target, std::size_t begin, std::size_t count,
                   int ranks, ConstRankArrays arrays);

/// The share of `rank` in `count` elements.
[[nodiscard]] Piece share_of(DataType type, int rank, int ranks, std::size_t count) noexcept;

/// One of `ranks` shares of what combine_range computes: gives the results a piece at a time, with
/// offsets from `begin`.
void reduce_share(const Combination& how, int rank, int ranks, std::size_t begin, std::size_t count,
                  ConstRankArrays arrays, ResultSink sink);

/// One of `ranks` shares, given to all arrays.
void reduce_share_for_all(const Combination& how, int rank, int ranks, std::size_t begin,
                          std::size_t count, RankArrays arrays);

/// Puts what f makes of sums in their place, a piece at a time. Without f it does nothing.
void finish_all(std::span<const double> status, NumberSpan values, const UseSums* f);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/reduction/reduce_share.ipp"
#endif
