// How sums are formed: element by element, of the arrays of all ranks, and from 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What is combined, and how.
struct Combination {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
};

/// target[i] = first[i] and second[i] combined, for `count` elements; target may be first or
/// second. Integers wrap around on overflow. The maximum of anything and NaN is NaN: a rank must
/// not hide another's.
void combine(const Combination& how, void* target, const void* first, const void* second,
             std::size_t count) noexcept;

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

// `wire` is not Wire::native.

/// target[i] = encoded source[i].
void encode(Wire wire, std::uint16_t* target, const float* source, std::size_t count) noexcept;
/// target[i] = decoded source[i].
void decode(Wire wire, float* target, const std::uint16_t* source, std::size_t count) noexcept;
/// target[i] = decoded source[i] + target[i].
void decode_add(Wire wire, float* target, const std::uint16_t* source, std::size_t count) noexcept;
/// values[i] = what the others will decode.
void round_to_wire(Wire wire, float* values, std::size_t count) noexcept;

// With error feedback: residuals[i] = what is rounded off, 0 where that is not finite.

void encode(Wire wire, std::uint16_t* target, const float* source, float* residuals,
            std::size_t count) noexcept;
void round_to_wire(Wire wire, float* values, float* residuals, std::size_t count) noexcept;
/// values[i] = values[i] + residuals[i].
void add_residuals(float* values, const float* residuals, std::size_t count) noexcept;

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/reduction/combine.ipp"
#endif
