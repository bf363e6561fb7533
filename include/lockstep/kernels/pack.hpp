// A vector as a value, for element-wise formulas that read as they do for a scalar.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Bytes / sizeof(T) elements of T. Scalars convert to it (all lanes equal). Comparisons give a
/// Mask, for `select`. (A class and not the bare vector, so that operations can return it by value:
/// see dispatch.hpp.)
template <class T, std::size_t Bytes>
struct Pack {
  using value_type = T;
  using Vector = typename VectorTypes<T, Bytes>::type;
  static constexpr std::size_t size = Bytes / sizeof(T);

  struct Mask {
    typename VectorTypes<T, Bytes>::mask v;
    LOCKSTEP_KERNEL friend Mask operator&(const Mask& a, const Mask& b) { return {a.v & b.v}; }
    LOCKSTEP_KERNEL friend Mask operator|(const Mask& a, const Mask& b) { return {a.v | b.v}; }
    LOCKSTEP_KERNEL friend Mask operator!(const Mask& a) { return {~a.v}; }
  };

  Vector v;

  Pack() = default;
  LOCKSTEP_KERNEL Pack(T scalar)
      : v(Vector{} + scalar) {}  // (+ 0: g++ would insert lane by lane; -0 becomes 0)
  LOCKSTEP_KERNEL explicit Pack(const Vector& vector) : v(vector) {}
  template <std::same_as<T> U>  // (a template, so that Pack(0) is the number)
  LOCKSTEP_KERNEL explicit Pack(const U* p) {
    kernels::load(v, p);
  }
  LOCKSTEP_KERNEL void store(T* p) const { kernels::store(p, v); }
  /// The first `count` elements at p, then zeros.
  LOCKSTEP_KERNEL static Pack load_first(const T* p, std::size_t count) {
    Pack pack;
    kernels::load_first(pack.v, p, count);
    return pack;
  }
  LOCKSTEP_KERNEL void store_first(T* p, std::size_t count) const {
    kernels::store_first(p, v, count);
  }

  LOCKSTEP_KERNEL friend Pack operator+(const Pack& a, const Pack& b) { return Pack(a.v + b.v); }
  LOCKSTEP_KERNEL friend Pack operator-(const Pack& a, const Pack& b) { return Pack(a.v - b.v); }
  LOCKSTEP_KERNEL friend Pack operator*(const Pack& a, const Pack& b) { return Pack(a.v * b.v); }
  LOCKSTEP_KERNEL friend Pack operator/(const Pack& a, const Pack& b) { return Pack(a.v / b.v); }
  LOCKSTEP_KERNEL friend Pack operator-(const Pack& a) { return Pack(-a.v); }
  LOCKSTEP_KERNEL Pack& operator+=(const Pack& b) { return v += b.v, *this; }
  LOCKSTEP_KERNEL Pack& operator-=(const Pack& b) { return v -= b.v, *this; }
  LOCKSTEP_KERNEL Pack& operator*=(const Pack& b) { return v *= b.v, *this; }
  LOCKSTEP_KERNEL Pack& operator/=(const Pack& b) { return v /= b.v, *this; }

  LOCKSTEP_KERNEL friend Mask operator<(const Pack& a, const Pack& b) { return {a.v < b.v}; }
  LOCKSTEP_KERNEL friend Mask operator>(const Pack& a, const Pack& b) { return {a.v > b.v}; }
  LOCKSTEP_KERNEL friend Mask operator<=(const Pack& a, const Pack& b) { return {a.v <= b.v}; }
  LOCKSTEP_KERNEL friend Mask operator>=(const Pack& a, const Pack& b) { return {a.v >= b.v}; }
  LOCKSTEP_KERNEL friend Mask operator==(const Pack& a, const Pack& b) { return {a.v == b.v}; }
  LOCKSTEP_KERNEL friend Mask operator!=(const Pack& a, const Pack& b) { return {a.v != b.v}; }

  /// mask ? a : b, lane by lane.
  LOCKSTEP_KERNEL friend Pack select(const Mask& mask, const Pack& a, const Pack& b) {
    return Pack(mask.v ? a.v : b.v);
  }
  /// The larger; b when a is NaN.
  LOCKSTEP_KERNEL friend Pack max(const Pack& a, const Pack& b) {
    return Pack(a.v > b.v ? a.v : b.v);
  }
  /// The smaller; b when a is NaN.
  LOCKSTEP_KERNEL friend Pack min(const Pack& a, const Pack& b) {
    return Pack(a.v < b.v ? a.v : b.v);
  }
  LOCKSTEP_KERNEL friend Pack abs(const Pack& a) { return max(a, -a); }

  /// a * b + c, fused where the instruction set has such an instruction.
  LOCKSTEP_KERNEL friend Pack multiply_add(const Pack& a, const Pack& b, const Pack& c) {
    Pack sum = c;
    kernels::accumulate(sum.v, a.v, b.v);
    return sum;
  }

  /// The square root, correctly rounded. (In pieces of 128 bits: no compiler of today has it for
  /// the vector extension.)
  LOCKSTEP_KERNEL friend Pack sqrt(const Pack& a) {
    alignas(Bytes) T values[size];
    a.store(values);
#if defined(__SSE2__)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < size; i += 16 / sizeof(T)) {
      if constexpr (std::is_same_v<T, float>)
        _mm_store_ps(values + i, _mm_sqrt_ps(_mm_load_ps(values + i)));
      else
        _mm_store_pd(values + i, _mm_sqrt_pd(_mm_load_pd(values + i)));
    }
#else
    for (T& value : values) value = std::sqrt(value);
#endif
    return Pack(values);
  }
};

}}}  // namespace lockstep::kernels
