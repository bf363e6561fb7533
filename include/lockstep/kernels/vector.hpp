// SIMD vectors: the compiler's vector extension, sized by the instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"

// Why the vector extension, and not std::experimental::simd, xsimd or Highway: it needs no header
// (a translation unit compiles in seconds), its types follow the target attribute of the function
// that they are inlined into, and it works on every architecture that g++ and clang++ know.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// The vector types of element T that fill one register of Bytes bytes.
template <class T, std::size_t Bytes>
struct VectorTypes {
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

  // NOLINTBEGIN(modernize-use-using): g++ takes these attributes of a dependent type in a typedef
  // only
  typedef T type __attribute__((vector_size(Bytes)));
  typedef T unaligned __attribute__((vector_size(Bytes), aligned(sizeof(T)), may_alias));
  typedef Integer mask
      __attribute__((vector_size(Bytes)));  // lanes are 0 or -1, the result of a comparison
  // NOLINTEND(modernize-use-using)
};

template <class T, class Isa>
using Vector = typename VectorTypes<T, Isa::vector_bytes>::type;

/// Number of elements of T in a vector.
template <class T, class Isa>
inline constexpr std::size_t lanes = Isa::vector_bytes / sizeof(T);

/// v = p[0 ... lanes - 1]; any alignment.
template <class T, class V>
LOCKSTEP_KERNEL void load(V& v, const T* p) {
  v = *reinterpret_cast<const typename VectorTypes<T, sizeof(V)>::unaligned*>(p);
}

/// The first `count` elements at p, then zeros; what follows them is not read.
template <class T, class V>
LOCKSTEP_KERNEL void load_first(V& v, const T* p, std::size_t count) {
  constexpr std::size_t size = sizeof(V) / sizeof(T);
  if (count >= size) [[likely]] {
    load(v, p);
    return;
  }
  T values[size] = {};
  std::copy_n(p, count, values);
  load(v, static_cast<const T*>(values));
}

template <class T, class V>
LOCKSTEP_KERNEL void store(T* p, const V& v) {
  *reinterpret_cast<typename VectorTypes<T, sizeof(V)>::unaligned*>(p) = v;
}

/// p[0 ... count - 1] = the first of v; nothing beyond is written.
template <class T, class V>
LOCKSTEP_KERNEL void store_first(T* p, const V& v, std::size_t count) {
  constexpr std::size_t size = sizeof(V) / sizeof(T);
  if (count >= size) [[likely]] {
    store(p, v);
    return;
  }
  T values[size];
  store(static_cast<T*>(values), v);
  std::copy_n(values, count, p);
}

/// sum += a * b, fused where the instruction set has such an instruction: g++ fuses by default (not
/// with -ffp-contract=off), clang++ because it is told so. One of a and b may be a scalar.
template <class V, class A, class B>
LOCKSTEP_KERNEL void accumulate(V& sum, const A& a, const B& b) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
  sum += a * b;
}

namespace detail {

template <class Half, class V, std::size_t... I>
LOCKSTEP_KERNEL void add_halves(Half& sum, const V& v, std::index_sequence<I...>) {
  sum = __builtin_shufflevector(v, v, static_cast<int>(I)...) +
        __builtin_shufflevector(v, v, static_cast<int>(sizeof...(I) + I)...);
}

}  // namespace detail

/// The sum of all lanes, by halves: (0 + n/2), (1 + n/2 + 1), ... and so on. (In registers: a
/// detour through memory holds up the loads that follow.)
template <class T, class V>
LOCKSTEP_KERNEL T sum_of_lanes(const V& v) {
  constexpr std::size_t size = sizeof(V) / sizeof(T);
  if constexpr (size == 2) {
    return v[0] + v[1];
  } else if constexpr (sizeof(V) == 16) {
    const V halves = v + __builtin_shufflevector(v, v, 2, 3, 2, 3);
    return halves[0] + halves[1];
  } else {
    typename VectorTypes<T, sizeof(V) / 2>::type sums;
    detail::add_halves(sums, v, std::make_index_sequence<size / 2>());
    return sum_of_lanes<T>(sums);
  }
}

}}}  // namespace lockstep::kernels
