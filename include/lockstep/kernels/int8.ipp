#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/embedding.hpp"
#include "lockstep/kernels/int8.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Rows that are rounded at once; sums that are kept until they become floats.
inline constexpr std::size_t int8_rows = 64, int8_sums = 4096;

/// How a row or a unit becomes whole numbers: they are v * inverse, rounded; v ~ number * scale.
struct Int8Scale {
  float scale = 0, inverse = 0;

  /// `largest`: the bits of the largest absolute value.
  explicit Int8Scale(std::uint32_t largest) {
    const auto value = std::bit_cast<float>(largest);
    if (!std::isfinite(value))
      scale = std::numeric_limits<float>::quiet_NaN();
    else if (value >= 1e-30F)  // less is zero
      scale = value / 127, inverse = 127 / value;
  }
};

/// Makes a compiler round v before it is added to: fused, it would have other bits on some
/// instruction sets.
template <class V>
LOCKSTEP_KERNEL void round_here(V& v) {
  __asm__("" : "+m"(v));
}

template <std::size_t Count>
struct Int8Lanes {
  // NOLINTNEXTLINE(modernize-use-using)
  typedef std::int8_t type __attribute__((vector_size(Count), aligned(1), may_alias));
};

/// Rounds rows of x, one of whose steps is 1, to numbers [row][inputs], filled up with zeros; or to
/// numbers of 16 bits, [row / 16][input / 2][row % 16][2], of x whose step from row to row is 1.
struct RoundRows {
  std::size_t inputs, rows;
  const float* x;
  RowSteps steps;
  std::size_t row_size;  ///< of `to`
  std::int8_t* to;
  float* scales;
  std::int32_t* pairs = nullptr;  ///< instead of `to`

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    const RoundRows s = *this;
    if (s.pairs != nullptr)
      s.template lane_by_lane<Isa, 16>();
    else if (s.steps.feature == 1)
      s.template row_by_row<Isa>();
    else
      s.template lane_by_lane<Isa, 8>();
  }

 private:
  template <class Isa>
  using Floats = Vector<float, Isa>;
  template <class Isa>
  using Whole = typename VectorTypes<float, Isa::vector_bytes>::mask;

  /// The bits of |v|.
  template <class Isa>
  LOCKSTEP_KERNEL static void absolute(Whole<Isa>& bits, const Floats<Isa>& v) {
    bits = reinterpret_cast<Whole<Isa>>(v) & 0x7FFF'FFFF;
  }
  /// v * inverse, to the nearest whole number, ties to even.
  template <class Isa, class Inverse>
  LOCKSTEP_KERNEL static void whole(Whole<Isa>& number, const Floats<Isa>& v,
                                    const Inverse& inverse) {
    Floats<Isa> scaled = v * inverse;
    round_here(scaled);
    scaled += 0x1.8p23F;  // whose last bit is worth 1
    number = reinterpret_cast<Whole<Isa>>(scaled) - 0x4B40'0000;
  }

  template <class Isa>
  LOCKSTEP_KERNEL void row_by_row() const {
    constexpr std::size_t n = lanes<float, Isa>;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* const from = x + row * steps.row;
      std::int8_t* const numbers = to + row * row_size;
      Whole<Isa> largest{};
      for (std::size_t i = 0; i < inputs; i += n) {
        Floats<Isa> v;
        load_first(v, from + i, inputs - i);
        Whole<Isa> bits;
        absolute<Isa>(bits, v);
        largest = bits > largest ? bits : largest;
      }
      std::uint32_t top = 0;
      for (std::size_t lane = 0; lane < n; ++lane)
        top = std::max(top, static_cast<std::uint32_t>(largest[lane]));
      const Int8Scale scale(top);
      scales[row] = scale.scale;
      for (std::size_t i = 0; i < inputs; i += n) {
        Floats<Isa> v;
        load_first(v, from + i, inputs - i);
        Whole<Isa> number;
        whole<Isa>(number, v, scale.inverse);
        if (top >= 0x7F80'0000) number = Whole<Isa>{};
        using Bytes = typename Int8Lanes<n>::type;  // (row_size is a multiple of n.)
        *reinterpret_cast<Bytes*>(numbers + i) = __builtin_convertvector(number, Bytes);
      }
      std::fill(numbers + inputs, numbers + row_size, std::int8_t{0});
    }
  }

  /// (All lanes of x are readable: rows are padded to a multiple of 16.)
  template <class Isa, std::size_t Bits>
  LOCKSTEP_KERNEL void lane_by_lane() const {
    constexpr std::size_t parts = 32 / Bits;
    constexpr std::int32_t part_mask = (1 << Bits) - 1;
    constexpr std::size_t n = lanes<float, Isa>;
    for (std::size_t row = 0; row < rows; row += n) {
      const float* const from = x + row;
      const std::size_t step = steps.feature, count = std::min(n, rows - row);
      Whole<Isa> largest{};
      for (std::size_t i = 0; i < inputs; ++i) {
        Floats<Isa> v;
        load(v, from + i * step);
        Whole<Isa> bits;
        absolute<Isa>(bits, v);
        largest = bits > largest ? bits : largest;
      }
      alignas(Isa::vector_bytes) float inverses[n];
      for (std::size_t lane = 0; lane < count; ++lane) {
        const Int8Scale scale(static_cast<std::uint32_t>(largest[lane]));
        scales[row + lane] = scale.scale;
        inverses[lane] = scale.inverse;
      }
      for (std::size_t lane = count; lane < n; ++lane) inverses[lane] = 0;
      Floats<Isa> inverse;
      load(inverse, static_cast<const float*>(inverses));
      const Whole<Isa> finite = largest < 0x7F80'0000;
      for (std::size_t i = 0; i < row_size; i += parts) {
        Whole<Isa> words{};
        for (std::size_t part = 0; part < std::min(parts, inputs - std::min(inputs, i)); ++part) {
          Floats<Isa> v;
          load(v, from + (i + part) * step);
          Whole<Isa> number;
          whole<Isa>(number, v, inverse);
          words |= (number & finite & part_mask) << static_cast<int>(Bits * part);
        }
        if constexpr (Bits == 16) {
          std::int32_t* const lanes_of_16 = pairs + row / 16 * 16 * (row_size / 2) + row % 16;
          *reinterpret_cast<Whole<Isa>*>(lanes_of_16 + i / 2 * 16) = words;
          continue;
        }
        alignas(Isa::vector_bytes) std::int32_t values[n];
        *reinterpret_cast<Whole<Isa>*>(values) = words;
        for (std::size_t lane = 0; lane < count; ++lane)
          __builtin_memcpy(to + (row + lane) * row_size + i, values + lane, 4);
      }
    }
  }
};

/// Sums of products of whole numbers: sums[row][unit] with steps, of which one is 1.
struct Int8Sums {
  std::size_t inputs, units, rows;  ///< inputs and units are filled up
  const std::int8_t* x;             ///< [row][inputs]
  const std::int8_t* weights;       ///< [unit][inputs]
  const std::int32_t* unit_sums;
  std::int32_t* sums;
  RowSteps steps;

  [[nodiscard]] std::int32_t* place(std::size_t row, std::size_t unit) const {
    return sums + row * steps.row + unit * steps.feature;
  }
};

inline void sum_int8_plain(const Int8Sums& s) {
  for (std::size_t unit = 0; unit < s.units; ++unit)
    for (std::size_t row = 0; row < s.rows; ++row) {
      const std::int8_t* const x = s.x + row * s.inputs;
      const std::int8_t* const weights = s.weights + unit * s.inputs;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < s.inputs; ++i) sum += std::int32_t{x[i]} * weights[i];
      *s.place(row, unit) = sum;
    }
}

/// For 16 rows and more of x: products of 16 bits, with weights that are widened once for all rows.
/// A vector has rows, so that no sum goes across it.
struct WideInt8 {
  static constexpr std::size_t rows = 16;     ///< of a block
  static constexpr std::size_t inputs = 256;  ///< whose blocks of x and of weights a cache holds
  static constexpr std::size_t units = Int8Kernel::unit_multiple;
};

#if defined(__x86_64__)

/// The sums of four vectors.
__attribute__((target("avx2"), always_inline)) inline __m128i sums_of_four(__m256i a, __m256i b,
                                                                           __m256i c, __m256i d) {
  const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

/// Four units of R rows. (An unsigned number times a signed one: |x| and the weight with the sign
/// of x. The sum of two is at most 2 * 127 * 127, within 16 bits.)
template <std::size_t R>
__attribute__((target("avx2"), always_inline)) inline void sum_int8_tile_avx2(const Int8Sums& s,
                                                                              std::size_t row,
                                                                              std::size_t unit) {
  const std::int8_t* x = s.x + row * s.inputs;
  const std::int8_t* weights = s.weights + unit * s.inputs;
  const std::size_t inputs = s.inputs;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[R][4];
#pragma GCC unroll 2
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (std::size_t u = 0; u < 4; ++u) sums[r][u] = _mm256_setzero_si256();
  for (std::size_t i = 0; i < inputs; i += 32) {
    __m256i numbers[R];
#pragma GCC unroll 2
    for (std::size_t r = 0; r < R; ++r)
      numbers[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + r * inputs + i));
#pragma GCC unroll 4
    for (std::size_t u = 0; u < 4; ++u) {
      const __m256i w =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + u * inputs + i));
#pragma GCC unroll 2
      for (std::size_t r = 0; r < R; ++r) {
        const __m256i pairs =
            _mm256_maddubs_epi16(_mm256_abs_epi8(numbers[r]), _mm256_sign_epi8(w, numbers[r]));
        sums[r][u] = _mm256_add_epi32(sums[r][u], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r) {
    alignas(16) std::int32_t four[4];
    _mm_store_si128(reinterpret_cast<__m128i*>(four),
                    sums_of_four(sums[r][0], sums[r][1], sums[r][2], sums[r][3]));
    for (std::size_t u = 0; u < 4; ++u) *s.place(row + r, unit + u) = four[u];
  }
}

__attribute__((target("avx2"), noinline)) inline void sum_int8_avx2(const Int8Sums& s) {
  for (std::size_t unit = 0; unit < s.units; unit += 4) {
    std::size_t row = 0;
    for (; row + 2 <= s.rows; row += 2) sum_int8_tile_avx2<2>(s, row, unit);
    for (; row < s.rows; ++row) sum_int8_tile_avx2<1>(s, row, unit);
  }
}

/// U units of 16 rows: `to` is their sums [unit][rows], set or added to.
template <std::size_t U>
__attribute__((target("avx2"), always_inline)) inline void sum_wide_tile(
    std::size_t inputs, const std::int32_t* x, const std::int16_t* weights, bool adds,
    std::int32_t* to, std::size_t step) {
  const auto vector = [](std::int32_t* place) { return reinterpret_cast<__m256i*>(place); };
  __m256i sums[U][2];
#pragma GCC unroll 6
  for (std::size_t u = 0; u < U; ++u)
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
      sums[u][half] =
          adds ? _mm256_loadu_si256(vector(to + u * step + half * 8)) : _mm256_setzero_si256();
  for (std::size_t i = 0; i < inputs; i += 2) {
    const auto* const rows = reinterpret_cast<const __m256i*>(x + i / 2 * WideInt8::rows);
    const __m256i first = _mm256_load_si256(rows), second = _mm256_load_si256(rows + 1);
#pragma GCC unroll 6
    for (std::size_t u = 0; u < U; ++u) {
      std::int32_t pair;
      __builtin_memcpy(&pair, weights + u * WideInt8::inputs + i, sizeof pair);
      const __m256i w = _mm256_set1_epi32(pair);
      sums[u][0] = _mm256_add_epi32(sums[u][0], _mm256_madd_epi16(first, w));
      sums[u][1] = _mm256_add_epi32(sums[u][1], _mm256_madd_epi16(second, w));
    }
  }
#pragma GCC unroll 6
  for (std::size_t u = 0; u < U; ++u)
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half)
      _mm256_storeu_si256(vector(to + u * step + half * 8), sums[u][half]);
}

/// `x`: the rows' pairs, see RoundRows. s.rows is a multiple of 16, and s.steps.row is 1.
__attribute__((target("avx2"), noinline)) inline void sum_int8_wide(const Int8Sums& s,
                                                                    const std::int32_t* x) {
  alignas(cache_line) std::int16_t wide[WideInt8::units * WideInt8::inputs];
  for (std::size_t unit = 0; unit < s.units; unit += WideInt8::units)
    for (std::size_t i = 0; i < s.inputs; i += WideInt8::inputs) {
      const std::size_t inputs = std::min(WideInt8::inputs, s.inputs - i);
      for (std::size_t u = 0; u < WideInt8::units; ++u) {
        const std::int8_t* const from = s.weights + (unit + u) * s.inputs + i;
        for (std::size_t j = 0; j < inputs; j += 16)
          _mm256_store_si256(
              reinterpret_cast<__m256i*>(wide + u * WideInt8::inputs + j),
              _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j))));
        for (std::size_t j = 0; j < inputs; j += 64)  // what comes next
          __builtin_prefetch(from + WideInt8::units * s.inputs + j);
      }
      for (std::size_t row = 0; row < s.rows; row += WideInt8::rows) {
        const std::int32_t* const rows = x + row * (s.inputs / 2) + i / 2 * WideInt8::rows;
        constexpr std::size_t unit_size = WideInt8::inputs;
        std::int32_t* const to = s.place(row, unit);
        const std::size_t step = s.steps.feature;
        sum_wide_tile<6>(inputs, rows, wide, i > 0, to, step);
        sum_wide_tile<6>(inputs, rows, wide + 6 * unit_size, i > 0, to + 6 * step, step);
        sum_wide_tile<4>(inputs, rows, wide + 12 * unit_size, i > 0, to + 12 * step, step);
      }
    }
}

#define LOCKSTEP_VNNI_TARGET target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2")

/// The sums of four vectors. (Not by intrinsics of which g++ 12 warns.)
__attribute__((LOCKSTEP_VNNI_TARGET, always_inline)) inline __m128i sums_of_four(__m512i a,
                                                                                 __m512i b,
                                                                                 __m512i c,
                                                                                 __m512i d) {
  const auto pairs = [](auto v, auto w) __attribute__((LOCKSTEP_VNNI_TARGET, always_inline)) {
    return __builtin_shufflevector(v, w, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
           __builtin_shufflevector(v, w, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15,
                                   31);
  };
  const auto ab = pairs(reinterpret_cast<__v16si>(a), reinterpret_cast<__v16si>(b));
  const auto cd = pairs(reinterpret_cast<__v16si>(c), reinterpret_cast<__v16si>(d));
  const auto all =
      __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
      __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  const auto half = __builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15);
  return reinterpret_cast<__m128i>(__builtin_shufflevector(half, half, 0, 1, 2, 3) +
                                   __builtin_shufflevector(half, half, 4, 5, 6, 7));
}

/// U units of R rows, of which one is a multiple of 4 and the other 1 or that, too. (The
/// instruction takes x unsigned: x + 128, and the sums of the weights are subtracted as often.)
template <std::size_t U, std::size_t R>
__attribute__((LOCKSTEP_VNNI_TARGET, always_inline)) inline void sum_int8_tile_vnni(
    const Int8Sums& s, std::size_t row, std::size_t unit) {
  const std::int8_t* x = s.x + row * s.inputs;
  const std::int8_t* weights = s.weights + unit * s.inputs;
  const std::size_t inputs = s.inputs;
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(-128));
  __m512i sums[U][R];
#pragma GCC unroll 8
  for (std::size_t u = 0; u < U; ++u)
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) sums[u][r] = _mm512_setzero_si512();
  const auto add = [&](std::size_t i, __mmask64 lanes)
      __attribute__((LOCKSTEP_VNNI_TARGET, always_inline)) {
    __m512i numbers[R];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r)
      numbers[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, x + r * inputs + i), offset);
#pragma GCC unroll 8
    for (std::size_t u = 0; u < U; ++u) {
      const __m512i w = _mm512_maskz_loadu_epi8(lanes, weights + u * inputs + i);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r)
        // (g++ 12 copies each sum twice around the intrinsic.)
        __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[u][r]) : "v"(numbers[r]), "v"(w));
    }
  };
  std::size_t i = 0;
  for (; i + 64 <= inputs; i += 64) add(i, ~__mmask64{0});
  if (i < inputs) add(i, 0xFFFF'FFFF);
  const std::int32_t* const unit_sums = s.unit_sums + unit;
  if constexpr (R == 4) {
#pragma GCC unroll 8
    for (std::size_t u = 0; u < U; ++u) {
      const __m128i four =
          _mm_sub_epi32(sums_of_four(sums[u][0], sums[u][1], sums[u][2], sums[u][3]),
                        _mm_set1_epi32(128 * unit_sums[u]));
      std::int32_t* const to = s.place(row, unit + u);
      if (s.steps.row == 1) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), four);
      } else {
        alignas(16) std::int32_t values[4];
        _mm_store_si128(reinterpret_cast<__m128i*>(values), four);
        for (std::size_t r = 0; r < 4; ++r) to[r * s.steps.row] = values[r];
      }
    }
  } else {
#pragma GCC unroll 2
    for (std::size_t u = 0; u < U; u += 4) {
      const __m128i four = _mm_sub_epi32(
          sums_of_four(sums[u][0], sums[u + 1][0], sums[u + 2][0], sums[u + 3][0]),
          _mm_slli_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(unit_sums + u)), 7));
      alignas(16) std::int32_t values[4];
      _mm_store_si128(reinterpret_cast<__m128i*>(values), four);
      for (std::size_t lane = 0; lane < 4; ++lane) *s.place(row, unit + u + lane) = values[lane];
    }
  }
}

__attribute__((LOCKSTEP_VNNI_TARGET, noinline))
LOCKSTEP_VECTOR_WIDTH(512) inline void sum_int8_vnni(const Int8Sums& s) {
  for (std::size_t unit = 0; unit < s.units; unit += 8) {
    std::size_t row = 0;
    for (; row + 4 <= s.rows; row += 4) {
      sum_int8_tile_vnni<4, 4>(s, row, unit);
      sum_int8_tile_vnni<4, 4>(s, row, unit + 4);
    }
    for (; row < s.rows; ++row) sum_int8_tile_vnni<8, 1>(s, row, unit);
  }
}

#undef LOCKSTEP_VNNI_TARGET

#endif

/// y = finish(bias + sum * (scale of the row * scale of the unit)), a line after the other: of
/// units where y's rows are contiguous, else of rows.
struct FinishInt8 {
  std::size_t lines, size;
  const std::int32_t* sums;
  std::size_t sums_step;
  const float* line_scales;
  const float* scales;
  const float* line_bias;  ///< null: zero, as below
  const float* bias;
  float* y;
  std::size_t y_step;
  float minimum;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<float, Isa>;
    constexpr std::size_t n = lanes<float, Isa>;
    const FinishInt8 s = *this;
    for (std::size_t line = 0; line < s.lines; ++line)
      for (std::size_t i = 0; i < s.size; i += n) {
        const std::size_t left = s.size - i;
        typename VectorTypes<float, Isa::vector_bytes>::mask sum;
        load_first(sum, s.sums + line * s.sums_step + i, left);
        V scale, first{};
        load_first(scale, s.scales + i, left);
        if (s.bias != nullptr) load_first(first, s.bias + i, left);
        if (s.line_bias != nullptr) first += s.line_bias[line];
        scale *= s.line_scales[line];
        round_here(scale);
        V value = __builtin_convertvector(sum, V) * scale;
        round_here(value);
        value += first;
        value = value < s.minimum ? s.minimum - V{} : value;
        store_first(s.y + line * s.y_step + i, value, left);
      }
  }
};

/// GatherRows of a table of 8 bits.
struct GatherInt8 {
  const std::int8_t* numbers;  ///< [vocabulary][row_size]
  std::size_t row_size;
  const float* scales;
  GatherRows<float> rows;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t n = lanes<float, Isa>;
    const GatherInt8 s = *this;
    const GatherRows<float> g = s.rows;
    using V = Vector<float, Isa>;
    if (g.stride == 1) {
      const auto id = static_cast<std::size_t>(g.ids[0]);
      for (std::size_t d = 0; d < g.width; d += n) {
        V v;
        s.template load_row<Isa>(v, id, d);
        store_first(g.to + d, v, g.width - d);
      }
      return;
    }
    for (std::size_t i = 0; i < g.stride; i += n) {
      std::size_t ids[n];
      for (std::size_t k = 0; k < n; ++k)
        ids[k] = i + k < g.count ? static_cast<std::size_t>(g.ids[i + k]) : g.vocabulary;
      for (std::size_t d = 0; d < g.width; d += n) {
        V block[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (ids[k] < g.vocabulary) s.template load_row<Isa>(block[k], ids[k], d);
        }
        transpose_block(block);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k)
          if (d + k < g.width) store(g.to + (d + k) * g.stride + i, block[k]);
      }
    }
  }

 private:
  template <class Isa, class V>
  LOCKSTEP_KERNEL void load_row(V& v, std::size_t id, std::size_t d) const {
    using Bytes = typename Int8Lanes<lanes<float, Isa>>::type;
    const auto whole =
        __builtin_convertvector(*reinterpret_cast<const Bytes*>(numbers + id * row_size + d),
                                typename VectorTypes<float, Isa::vector_bytes>::mask);
    v = __builtin_convertvector(whole, V) * scales[id];
  }
};

/// For x of the thread's calls.
[[nodiscard]] inline std::int8_t* int8_memory(std::size_t bytes) {
  static thread_local Buffer memory;
  if (memory.size() < bytes) memory = Buffer(bytes);
  return reinterpret_cast<std::int8_t*>(memory.data());
}

}  // namespace detail

LOCKSTEP_INLINE void quantize_int8(std::size_t inputs, std::size_t units, const float* weights,
                                   const Int8Kernel& to, bool is_table) {
  const std::size_t row = to.inputs();
  const std::size_t all = Int8Kernel::rounded(units, Int8Kernel::unit_multiple);
  std::fill_n(to.numbers(), all * row, std::int8_t{0});
  std::fill_n(to.scales(), all, 0.0F);
  std::fill_n(to.sums(), all, 0);
  constexpr std::size_t at_once = Int8Kernel::unit_multiple;
  std::vector<float> rows(is_table ? 0 : at_once * inputs);
  for (std::size_t first = 0; first < units; first += at_once) {
    const std::size_t count = std::min(at_once, units - first);
    if (!is_table)
      for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t u = 0; u < count; ++u)
          rows[u * inputs + i] = weights[i * units + first + u];
    dispatch(detail::RoundRows{inputs,
                               count,
                               is_table ? weights + first * inputs : rows.data(),
                               {inputs, 1},
                               row,
                               to.numbers() + first * row,
                               to.scales() + first});
  }
  for (std::size_t i = 0; i < units * row; ++i) to.sums()[i / row] += to.numbers()[i];
}

LOCKSTEP_INLINE Int8Way int8_way() {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512 && __builtin_cpu_supports("avx512vnni"))
    return Int8Way::vnni;
  if (instruction_set() >= InstructionSet::avx2) return Int8Way::avx2;
#endif
  return Int8Way::plain;
}

LOCKSTEP_INLINE void gather_int8(const GatherRows<float>& rows) {
  const Int8Kernel table(rows.width, rows.vocabulary,
                         reinterpret_cast<std::byte*>(const_cast<float*>(rows.table)));
  dispatch(detail::GatherInt8{table.numbers(), table.inputs(), table.scales(), rows});
}

LOCKSTEP_INLINE void multiply_int8(const AnyDense<float>& dense) {
  using namespace detail;
  const bool by_rows = dense.y_steps.feature == 1;  // whose units lie one after the other
  // (The memory is not written.)
  const Int8Kernel kernel(dense.inputs, dense.units,
                          reinterpret_cast<std::byte*>(const_cast<float*>(dense.weights)));
  const std::size_t row_size = kernel.inputs();
  const Int8Way way = int8_way();
  const bool is_wide = way == Int8Way::avx2 && !by_rows && dense.rows % WideInt8::rows == 0;
  // (If not: rows that stay in the first-level cache while all units pass by.)
  const std::size_t most =
      is_wide ? int8_rows : std::clamp<std::size_t>(24576 / row_size / 16 * 16, 16, int8_rows);
  std::int8_t* const numbers =
      int8_memory(std::min(dense.rows, most) * row_size * (is_wide ? 2 : 1));
  std::int32_t* const pairs = is_wide ? reinterpret_cast<std::int32_t*>(numbers) : nullptr;
  alignas(cache_line) std::array<float, int8_rows> scales;
  alignas(cache_line) std::array<std::int32_t, int8_sums> sums;
  for (std::size_t row = 0; row < dense.rows; row += most) {
    const std::size_t rows = std::min(most, dense.rows - row);
    dispatch(RoundRows{dense.inputs, rows, dense.x + row * dense.x_steps.row, dense.x_steps,
                       row_size, numbers, scales.data(), pairs});
    const std::size_t at_once =
        int8_sums / rows / Int8Kernel::unit_multiple * Int8Kernel::unit_multiple;
    for (std::size_t unit = 0; unit < dense.units; unit += at_once) {
      const std::size_t units = std::min(at_once, dense.units - unit);
      const Int8Sums work{row_size,
                          Int8Kernel::rounded(units, Int8Kernel::unit_multiple),
                          rows,
                          numbers,
                          kernel.numbers() + unit * row_size,
                          kernel.sums() + unit,
                          sums.data(),
                          by_rows ? RowSteps{at_once, 1} : RowSteps{1, rows}};
#if defined(__x86_64__)
      if (way == Int8Way::vnni)
        sum_int8_vnni(work);
      else if (is_wide)
        sum_int8_wide(work, pairs);
      else if (way == Int8Way::avx2)
        sum_int8_avx2(work);
      else
#endif
        sum_int8_plain(work);
      const float* const bias = dense.bias == nullptr ? nullptr : dense.bias + unit;
      float* const y = dense.y + row * dense.y_steps.row + unit * dense.y_steps.feature;
      if (by_rows)
        dispatch(FinishInt8{rows, units, sums.data(), at_once, scales.data(),
                            kernel.scales() + unit, nullptr, bias, y, dense.y_steps.row,
                            dense.finish.minimum});
      else
        dispatch(FinishInt8{units, rows, sums.data(), rows, kernel.scales() + unit, scales.data(),
                            bias, nullptr, y, dense.y_steps.feature, dense.finish.minimum});
    }
  }
}

}}}  // namespace lockstep::kernels
