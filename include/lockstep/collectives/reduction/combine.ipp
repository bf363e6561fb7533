#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/sum_to_all.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <ReduceOp op, Reducible T>
[[nodiscard]] constexpr T combined(T a, T b) noexcept {
  if constexpr (op == ReduceOp::max) {
    return b > a || b != b ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <ReduceOp op, Reducible T>
void combine_arrays(void* target_data, const void* first_data, const void* second_data,
                    std::size_t count) noexcept {
  T* const target = static_cast<T*>(target_data);
  const T* const first = static_cast<const T*>(first_data);
  const T* const second = static_cast<const T*>(second_data);
  // A constant trip count lets g++ vectorise at -O2, where it refuses loops that would need a
  // remainder.
  constexpr std::size_t chunk = 64 / sizeof(T);
  std::size_t i = 0;
  for (; i + chunk <= count; i += chunk) {
    T results[chunk];
    for (std::size_t j = 0; j < chunk; ++j) results[j] = combined<op>(first[i + j], second[i + j]);
    for (std::size_t j = 0; j < chunk; ++j) target[i + j] = results[j];
  }
  for (; i < count; ++i) target[i] = combined<op>(first[i], second[i]);
}

LOCKSTEP_INLINE void combine(const Combination& how, void* target, const void* first,
                             const void* second, std::size_t count) noexcept {
  using Kernel = void (*)(void*, const void*, const void*, std::size_t) noexcept;
  static constexpr Kernel kernels[][2] = {
      {combine_arrays<ReduceOp::sum, float>, combine_arrays<ReduceOp::max, float>},
      {combine_arrays<ReduceOp::sum, double>, combine_arrays<ReduceOp::max, double>},
      {combine_arrays<ReduceOp::sum, std::int64_t>, combine_arrays<ReduceOp::max, std::int64_t>}};
  kernels[static_cast<std::size_t>(how.type)][static_cast<std::size_t>(how.op)](target, first,
                                                                                second, count);
}

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

/// f(i) for each i below count, compiled for the instruction set in use. (A constant trip count
/// lets g++ vectorise at -O2.)
template <class F>
void for_each_index(std::size_t count, const F& f) noexcept {
  kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    constexpr std::size_t chunk = 64;
    const F copy = f;
    std::size_t i = 0;
    for (; i + chunk <= count; i += chunk)
      for (std::size_t j = 0; j < chunk; ++j) copy(i + j);
    for (; i < count; ++i) copy(i);
  });
}

template <class Format>
void encode_array(std::uint16_t* __restrict target, const float* __restrict source,
                  std::size_t count) noexcept {
  for_each_index(
      count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { target[i] = Format::encode(source[i]); });
}
template <class Format>
void decode_array(float* __restrict target, const std::uint16_t* __restrict source,
                  std::size_t count) noexcept {
  for_each_index(
      count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { target[i] = Format::decode(source[i]); });
}
template <class Format>
void decode_add_array(float* __restrict target, const std::uint16_t* __restrict source,
                      std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    target[i] = Format::decode(source[i]) + target[i];
  });
}
template <class Format>
void round_array(float* values, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    values[i] = Format::decode(Format::encode(values[i]));
  });
}

/// What `rounded` lacks of `value`. (Where a half has no such number, it cannot be made up for.)
LOCKSTEP_KERNEL float rounded_off(float value, float rounded) noexcept {
  const float rest = value - rounded;
  return rest - rest == 0 ? rest : 0;
}

template <class Format>
void encode_array(std::uint16_t* __restrict target, const float* __restrict source,
                  float* __restrict residuals, std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    target[i] = Format::encode(source[i]);
    residuals[i] = rounded_off(source[i], Format::decode(target[i]));
  });
}
template <class Format>
void round_array(float* __restrict values, float* __restrict residuals,
                 std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    const float rounded = Format::decode(Format::encode(values[i]));
    residuals[i] = rounded_off(values[i], rounded);
    values[i] = rounded;
  });
}

LOCKSTEP_INLINE void encode(Wire wire, std::uint16_t* target, const float* source, float* residuals,
                            std::size_t count) noexcept {
  wire == Wire::bfloat16 ? encode_array<Bfloat16>(target, source, residuals, count)
                         : encode_array<Float16>(target, source, residuals, count);
}
LOCKSTEP_INLINE void round_to_wire(Wire wire, float* values, float* residuals,
                                   std::size_t count) noexcept {
  wire == Wire::bfloat16 ? round_array<Bfloat16>(values, residuals, count)
                         : round_array<Float16>(values, residuals, count);
}
LOCKSTEP_INLINE void add_residuals(float* values, const float* residuals,
                                   std::size_t count) noexcept {
  for_each_index(count, [=](std::size_t i) LOCKSTEP_KERNEL_LAMBDA { values[i] += residuals[i]; });
}

LOCKSTEP_INLINE void encode(Wire wire, std::uint16_t* target, const float* source,
                            std::size_t count) noexcept {
  wire == Wire::bfloat16 ? encode_array<Bfloat16>(target, source, count)
                         : encode_array<Float16>(target, source, count);
}
LOCKSTEP_INLINE void decode(Wire wire, float* target, const std::uint16_t* source,
                            std::size_t count) noexcept {
  wire == Wire::bfloat16 ? decode_array<Bfloat16>(target, source, count)
                         : decode_array<Float16>(target, source, count);
}
LOCKSTEP_INLINE void decode_add(Wire wire, float* target, const std::uint16_t* source,
                                std::size_t count) noexcept {
  wire == Wire::bfloat16 ? decode_add_array<Bfloat16>(target, source, count)
                         : decode_add_array<Float16>(target, source, count);
}
LOCKSTEP_INLINE void round_to_wire(Wire wire, float* values, std::size_t count) noexcept {
  wire == Wire::bfloat16 ? round_array<Bfloat16>(values, count)
                         : round_array<Float16>(values, count);
}

}}}  // namespace lockstep::detail
