#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/kernels/bfloat16.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

using lockstep::detail::Bfloat16, lockstep::detail::Float16;

/// Summands that are added up in registers, part of the order of summation; rows of A that are
/// packed at once.
inline constexpr std::size_t bfloat16_block = 256, bfloat16_rows = 576;

/// The bits of a vector of floats.
template <class Isa>
struct Bits {
  // NOLINTBEGIN(modernize-use-using)
  typedef std::uint32_t type __attribute__((vector_size(Isa::vector_bytes)));
  typedef std::uint32_t unaligned
      __attribute__((vector_size(Isa::vector_bytes), aligned(4), may_alias));
  // NOLINTEND(modernize-use-using)
};

/// v rounded to numbers of Half (Bfloat16, Float16), still as floats.
template <class Half, class Isa>
LOCKSTEP_KERNEL void round_bits(typename Bits<Isa>::type& v) {
  using B = typename Bits<Isa>::type;
  if constexpr (std::is_same_v<Half, Float16>) {
    using V = Vector<float, Isa>;
    const B magnitude = v & 0x7FFF'FFFF;
    const B normal = (magnitude + 0xFFF + (magnitude >> 13 & 1)) & 0xFFFF'E000;
    // Below 2^-14 halves are 2^-24 apart, as floats are from 0.5 on.
    const V sum = reinterpret_cast<V>(magnitude) + 0.5F;
    const B small = reinterpret_cast<B>(sum - 0.5F);
    const B is_small = reinterpret_cast<B>(magnitude < (113U << 23));
    const B is_finite = reinterpret_cast<B>(normal < (143U << 23));
    const B is_nan = reinterpret_cast<B>(magnitude > 0x7F80'0000);
    const B large = 0x7F80'0000 | (is_nan & 0x40'0000);
    v = (v & 0x8000'0000) | (is_small & small) | (~is_small & is_finite & normal) |
        (~is_finite & large);
    return;
  }
  const B rounded = v + 0x7FFF + (v >> 16 & 1);
  const B is_nan = reinterpret_cast<B>((v & 0x7FFF'FFFF) > 0x7F80'0000);
  v = ((is_nan & (v | 0x40'0000)) | (~is_nan & rounded)) & 0xFFFF'0000;
}

template <class Half>
struct RoundArray {
  std::size_t n;
  const float* from;
  float* to;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using B = Bits<Isa>;
    const RoundArray s = *this;
    constexpr std::size_t size = lanes<float, Isa>;
    std::size_t i = 0;
    for (; i + size <= s.n; i += size) {
      auto v = typename B::type(*reinterpret_cast<const typename B::unaligned*>(s.from + i));
      round_bits<Half, Isa>(v);
      *reinterpret_cast<typename B::unaligned*>(s.to + i) = v;
    }
    for (; i < s.n; ++i) s.to[i] = Half::decode(Half::encode(s.from[i]));
  }
};

/// A vector of as many halves.
template <class Isa>
struct Halves {
  // NOLINTBEGIN(modernize-use-using)
  typedef std::uint16_t type __attribute__((vector_size(Isa::vector_bytes / 2)));
  typedef std::uint16_t unaligned
      __attribute__((vector_size(Isa::vector_bytes / 2), aligned(2), may_alias));
  // NOLINTEND(modernize-use-using)
};

/// Floats to halves, or with Unpacks halves to floats.
template <bool Unpacks>
struct PackArray {
  std::size_t n;
  const float* from;
  float* to;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using B = Bits<Isa>;
    using H = Halves<Isa>;
    constexpr std::size_t size = lanes<float, Isa>;
    const PackArray s = *this;
    const char* source = reinterpret_cast<const char*>(s.from);
    char* place = reinterpret_cast<char*>(s.to);
    for (std::size_t i = 0; i < s.n; i += size) {
      if constexpr (Unpacks) {
        const auto half = typename H::type(*reinterpret_cast<const typename H::unaligned*>(source));
        *reinterpret_cast<typename B::unaligned*>(place) =
            __builtin_convertvector(half, typename B::type) << 16;
      } else {
        auto v = typename B::type(*reinterpret_cast<const typename B::unaligned*>(source));
        round_bits<Bfloat16, Isa>(v);
        *reinterpret_cast<typename H::unaligned*>(place) =
            __builtin_convertvector(v >> 16, typename H::type);
      }
      source += size * (Unpacks ? 2 : 4);
      place += size * (Unpacks ? 4 : 2);
    }
  }
};

/// `width` numbers of `count` k's, `step` apart, in rows that are to_step long: of each pair of k's
/// the second one first. Where there is one k too many, a zero stands before it.
template <class Half>
struct PackLines {
  const float* from;
  std::size_t count, step, width;
  float* to;
  std::size_t to_step;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using B = Bits<Isa>;
    using V = typename B::type;
    constexpr std::size_t size = lanes<float, Isa>;
    const PackLines s = *this;
    float* place = s.to;
    for (std::size_t k = 0; k < s.count; k += 2) {
      const float* const first = s.from + k * s.step;
      const float* const second = k + 1 < s.count ? first + s.step : nullptr;
      for (std::size_t i = 0; i < s.width; i += size) {
        const std::size_t left = s.width - i;
        V low{}, high{};
        read<Isa>(low, first + i, left);
        if (second != nullptr) read<Isa>(high, second + i, left);
        round_bits<Half, Isa>(low);
        round_bits<Half, Isa>(high);
        *reinterpret_cast<typename B::unaligned*>(place + i) = high;
        *reinterpret_cast<typename B::unaligned*>(place + s.to_step + i) = low;
      }
      place += 2 * s.to_step;
    }
  }

 private:
  template <class Isa>
  LOCKSTEP_KERNEL static void read(typename Bits<Isa>::type& v, const float* p, std::size_t left) {
    Vector<float, Isa> values;
    load_first(values, p, left);
    v = reinterpret_cast<typename Bits<Isa>::type>(values);
  }
};

/// The same of `rows` rows whose k's are `step` apart (most often 1), row by row. With Words, a
/// pair of k's is a word of 32 bits, the first one below.
template <class Half, bool Words>
struct PackRuns {
  const float* from;
  std::size_t rows, row_step, count, step;
  float* to;
  std::size_t to_step;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    const PackRuns s = *this;
    for (std::size_t row = 0; row < s.rows; ++row) {
      const float* const numbers = s.from + row * s.row_step;
      float* const place = s.to + row * s.to_step;
      if (s.step == 1)
        pack(numbers, 1, s.count, place);
      else
        pack(numbers, s.step, s.count, place);
    }
  }

 private:
  LOCKSTEP_KERNEL static void pack(const float* numbers, std::size_t step, std::size_t count,
                                   float* place) {
    auto* const words = reinterpret_cast<std::uint32_t*>(place);
    for (std::size_t pair = 0; pair < (count + 1) / 2; ++pair) {
      const bool has_second = 2 * pair + 1 < count;
      const auto low = Half::encode(numbers[2 * pair * step]);
      const auto high = Half::encode(has_second ? numbers[(2 * pair + 1) * step] : 0.0F);
      if constexpr (Words) {
        words[pair] = static_cast<std::uint32_t>(high) << 16 | low;
      } else {
        place[2 * pair] = Half::decode(high);
        place[2 * pair + 1] = Half::decode(low);
      }
    }
  }
};

#if defined(__x86_64__)

#define LOCKSTEP_BFLOAT16_TARGET target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")

/// Rows of C times up to 64 columns, of packed operands.
struct PairsOfRows {
  const std::uint32_t* a;
  std::size_t a_row, a_pair;  ///< steps
  const std::uint32_t* b;
  std::size_t b_pair;  ///< step
  std::size_t pairs;
  Target<float> c;
  Onto<float> onto;
  Finish<float> finish;
};

template <std::size_t R, std::size_t C>
__attribute__((LOCKSTEP_BFLOAT16_TARGET, always_inline)) inline void multiply_pairs(
    const PairsOfRows& p, std::size_t row) {
  __m512 sums[R][C];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < C; ++j)
      sums[r][j] =
          p.onto.bias == nullptr ? _mm512_setzero_ps() : _mm512_set1_ps(p.onto.bias[row + r]);
  const std::uint32_t* a = p.a + row * p.a_row;
  const std::uint32_t* b = p.b;
  const std::size_t a_row = p.a_row, a_pair = p.a_pair, b_pair = p.b_pair;
  for (std::size_t k = p.pairs; k > 0; --k) {
    __m512i row_of_b[C];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < C; ++j) row_of_b[j] = _mm512_loadu_si512(b + 16 * j);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < R; ++r) {
      const __m512i factor = _mm512_set1_epi32(static_cast<int>(a[r * a_row]));
#pragma GCC unroll 4
      for (std::size_t j = 0; j < C; ++j)
        sums[r][j] = _mm512_dpbf16_ps(sums[r][j], reinterpret_cast<__m512bh>(factor),
                                      reinterpret_cast<__m512bh>(row_of_b[j]));
    }
    a += a_pair;
    b += b_pair;
  }
  const __m512 minimum =
      _mm512_set1_ps(p.finish.masks ? Finish<float>{}.minimum : p.finish.minimum);
#pragma GCC unroll 16
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (std::size_t j = 0; j < C; ++j) {
      if (16 * j >= p.c.columns) continue;
      const std::size_t left = p.c.columns - 16 * j;
      const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1);
      float* const to = p.c.data + (row + r) * p.c.row_step + 16 * j;
      __m512 sum = sums[r][j];
      if (p.onto.sums) {
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, to));
      } else if (p.finish.masks) {
        const __mmask16 zero = _mm512_cmp_ps_mask(_mm512_maskz_loadu_ps(lanes, to),
                                                  _mm512_set1_ps(p.finish.minimum), _CMP_LE_OQ);
        sum = _mm512_mask_mov_ps(sum, zero, _mm512_setzero_ps());
      }
      _mm512_mask_storeu_ps(to, lanes, _mm512_max_ps(minimum, sum));
    }
}

template <std::size_t C, std::size_t Most>
__attribute__((LOCKSTEP_BFLOAT16_TARGET, noinline))
LOCKSTEP_VECTOR_WIDTH(512) void multiply_all_pairs(const PairsOfRows& p) {
  std::size_t row = 0;
  for (; row + Most <= p.c.rows; row += Most) multiply_pairs<Most, C>(p, row);
  if constexpr (Most > 6)
    for (; row + 6 <= p.c.rows; row += 6) multiply_pairs<6, C>(p, row);
  for (; row + 4 <= p.c.rows; row += 4) multiply_pairs<4, C>(p, row);
  for (; row < p.c.rows; ++row) multiply_pairs<1, C>(p, row);
}

/// PackLines by the instruction that rounds two vectors.
__attribute__((LOCKSTEP_BFLOAT16_TARGET, noinline))
LOCKSTEP_VECTOR_WIDTH(512) inline void pack_lines(const float* from, std::size_t count,
                                                  std::size_t step, std::size_t width,
                                                  std::uint32_t* to, std::size_t to_step) {
  alignas(64) static constexpr std::uint16_t order[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                        21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                        11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i in_pairs = _mm512_load_si512(order);
  for (std::size_t k = 0; k < count; k += 2) {
    const float* const first = from + k * step;
    const bool has_second = k + 1 < count;
    const float* const second = has_second ? first + step : first;
    for (std::size_t i = 0; i < width; i += 16) {
      const std::size_t left = width - i;
      const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1);
      const __m512 low = _mm512_maskz_loadu_ps(lanes, first + i);
      const __m512 high =
          _mm512_maskz_loadu_ps(has_second ? lanes : static_cast<__mmask16>(0), second + i);
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(in_pairs, both));
    }
    to += to_step;
  }
}

/// PackRuns of k's that lie one after the other, likewise. A row of `to` has room for all lanes.
__attribute__((LOCKSTEP_BFLOAT16_TARGET, noinline))
LOCKSTEP_VECTOR_WIDTH(512) inline void pack_runs(const float* from, std::size_t rows,
                                                 std::size_t row_step, std::size_t count,
                                                 std::uint32_t* to, std::size_t to_step) {
  for (std::size_t row = 0; row < rows; ++row) {
    const float* numbers = from + row * row_step;
    for (std::size_t k = 0; k < count; k += 32) {
      const std::size_t left = count - k;
      const auto lanes = static_cast<std::uint32_t>(left >= 32 ? ~0U : (1U << left) - 1);
      const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes), numbers + k);
      const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes >> 16),
                                                numbers + k + (left > 16 ? 16 : 0));
      _mm512_storeu_si512(to + k / 2, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
    to += to_step;
  }
}

#undef LOCKSTEP_BFLOAT16_TARGET

// Conversions of 16 or 8 numbers by an instruction, to the nearest, ties to even.

inline bool has_f16c() {
#if defined(__clang__)  // whose builtin has no name for it; processors with FMA have it
  return instruction_set() >= InstructionSet::avx2;
#else
  return instruction_set() >= InstructionSet::avx2 && __builtin_cpu_supports("f16c") != 0;
#endif
}
__attribute__((target("avx512f"), noinline))
LOCKSTEP_VECTOR_WIDTH(512) inline void pack_float16_avx512(std::size_t n, const float* from,
                                                           float* to) {
  for (std::size_t i = 0; i < n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i / 2),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((target("avx512f"), noinline))
LOCKSTEP_VECTOR_WIDTH(512) inline void unpack_float16_avx512(std::size_t n, const float* from,
                                                             float* to) {
  for (std::size_t i = 0; i < n; i += 16)
    _mm512_storeu_ps(
        to + i,
        _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i / 2))));
}
__attribute__((target("avx,f16c"), noinline)) inline void pack_float16_f16c(std::size_t n,
                                                                            const float* from,
                                                                            float* to) {
  for (std::size_t i = 0; i < n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i / 2),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((target("avx,f16c"), noinline)) inline void unpack_float16_f16c(std::size_t n,
                                                                              const float* from,
                                                                              float* to) {
  for (std::size_t i = 0; i < n; i += 8)
    _mm256_storeu_ps(
        to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i / 2))));
}

#endif

/// A block of summands: A is packed once for all columns, B for each panel of them. With Words, by
/// the instruction.
template <class Half, bool Words>
void multiply_half_block(const Target<float>& target, const float* a, const float* b,
                         std::size_t count, const Steps& steps, const Onto<float>& onto,
                         Finish<float> finish, float* packed_a, float* packed_b) {
  constexpr std::size_t block = Words ? bfloat16_block / 2 : bfloat16_block;
  const std::size_t pairs = (count + 1) / 2;
  const bool in_lines = steps.a_row == 1 && steps.a != 1;
  const std::size_t a_row = in_lines ? 1 : block;
  const std::size_t a_next = in_lines ? padded_columns(target.rows) : 1;
  const auto pack_columns = [](const float* from, std::size_t summands, std::size_t step,
                               std::size_t width, float* to, std::size_t to_step) {
#if defined(__x86_64__)
    if constexpr (Words)
      return pack_lines(from, summands, step, width, reinterpret_cast<std::uint32_t*>(to), to_step);
#endif
    dispatch(PackLines<Half>{from, summands, step, width, to, to_step});
  };
  if (in_lines) {
    pack_columns(a, count, steps.a, target.rows, packed_a, a_next);
  } else {
#if defined(__x86_64__)
    if (Words && steps.a == 1)
      pack_runs(a, target.rows, steps.a_row, count, reinterpret_cast<std::uint32_t*>(packed_a),
                block);
    else
#endif
      dispatch(PackRuns<Half, Words>{a, target.rows, steps.a_row, count, steps.a, packed_a, block});
  }
  for (std::size_t column = 0; column < target.columns; column += panel_columns) {
    Target<float> part = target;
    part.data += column;
    part.columns = std::min(panel_columns, target.columns - column);
    part.ahead = 0;
    const std::size_t width = padded_columns(part.columns);
    pack_columns(b + steps.b.offset(column), count, steps.b.step, width, packed_b, width);
    if constexpr (Words) {
#if defined(__x86_64__)
      const PairsOfRows p{reinterpret_cast<const std::uint32_t*>(packed_a),
                          a_row,
                          a_next,
                          reinterpret_cast<const std::uint32_t*>(packed_b),
                          width,
                          pairs,
                          part,
                          onto,
                          finish};
      if (width == 64)
        multiply_all_pairs<4, 6>(p);
      else if (width == 48)
        multiply_all_pairs<3, 8>(p);
      else if (width == 32)
        multiply_all_pairs<2, 12>(p);
      else
        multiply_all_pairs<1, 12>(p);
#endif
    } else {
      const Segment<float> segment{packed_a, packed_b, 2 * pairs};
      dispatch(ProductBlock<float>{part,
                                   &segment,
                                   pairs > 0,
                                   {.a_row = a_row, .a = a_next, .b = {width}},
                                   onto,
                                   finish,
                                   {}});
    }
  }
}

template <class Half, bool Words>
void multiply_half_blocks(const Target<float>& target, const float* a, const float* b,
                          std::size_t inner, const Steps& steps, const Onto<float>& first_onto,
                          Finish<float> finish) {
  constexpr std::size_t rows = Words ? bfloat16_rows : bfloat16_rows / 2;
  alignas(cache_line) float packed_a[bfloat16_rows * bfloat16_block / 2];
  alignas(cache_line) float packed_b[panel_columns * bfloat16_block / (Words ? 2 : 1)];
  for (std::size_t row = 0; row < target.rows; row += rows) {
    Target<float> part = target;
    part.data += row * target.row_step;
    part.rows = std::min(rows, target.rows - row);
    std::size_t k = 0;
    do {
      const std::size_t count = std::min(bfloat16_block, inner - k);
      const float* const bias = first_onto.bias;
      const Onto<float> onto{k > 0 || first_onto.sums,
                             k > 0 || bias == nullptr ? nullptr : bias + row};
      multiply_half_block<Half, Words>(
          part, a + row * steps.a_row + k * steps.a, b + k * steps.b.step, count, steps, onto,
          k + count == inner ? finish : Finish<float>{}, packed_a, packed_b);
      k += count;
    } while (k < inner);
  }
}

}  // namespace detail

LOCKSTEP_INLINE void round_to_bfloat16(std::size_t n, const float* from, float* to) {
  dispatch(detail::RoundArray<detail::Bfloat16>{n, from, to});
}

LOCKSTEP_INLINE void pack_bfloat16(std::size_t n, const float* from, float* to) {
  dispatch(detail::PackArray<false>{n, from, to});
}
LOCKSTEP_INLINE void unpack_bfloat16(std::size_t n, const float* from, float* to) {
  dispatch(detail::PackArray<true>{n, from, to});
}

LOCKSTEP_INLINE void multiply_bfloat16(const Target<float>& target, const float* a, const float* b,
                                       std::size_t inner, const Steps& steps,
                                       const Onto<float>& onto, Finish<float> finish) {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::avx512_bf16)
    return detail::multiply_half_blocks<detail::Bfloat16, true>(target, a, b, inner, steps, onto,
                                                                finish);
#endif
  detail::multiply_half_blocks<detail::Bfloat16, false>(target, a, b, inner, steps, onto, finish);
}

LOCKSTEP_INLINE void round_to_float16(std::size_t n, const float* from, float* to) {
  dispatch(detail::RoundArray<detail::Float16>{n, from, to});
}

LOCKSTEP_INLINE void pack_float16(std::size_t n, const float* from, float* to) {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) return detail::pack_float16_avx512(n, from, to);
  if (detail::has_f16c()) return detail::pack_float16_f16c(n, from, to);
#endif
  auto* place = reinterpret_cast<char*>(to);
  for (std::size_t i = 0; i < n; ++i, place += 2) {
    const std::uint16_t half = detail::Float16::encode(from[i]);
    std::memcpy(place, &half, 2);
  }
}
LOCKSTEP_INLINE void unpack_float16(std::size_t n, const float* from, float* to) {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512)
    return detail::unpack_float16_avx512(n, from, to);
  if (detail::has_f16c()) return detail::unpack_float16_f16c(n, from, to);
#endif
  const auto* source = reinterpret_cast<const char*>(from);
  for (std::size_t i = 0; i < n; ++i, source += 2) {
    std::uint16_t half = 0;
    std::memcpy(&half, source, 2);
    to[i] = detail::Float16::decode(half);
  }
}

LOCKSTEP_INLINE void multiply_float16(const Target<float>& target, const float* a, const float* b,
                                      std::size_t inner, const Steps& steps,
                                      const Onto<float>& onto, Finish<float> finish) {
  detail::multiply_half_blocks<detail::Float16, false>(target, a, b, inner, steps, onto, finish);
}

}}}  // namespace lockstep::kernels
