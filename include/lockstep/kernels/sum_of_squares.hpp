// The sum of the squares of an array, in double.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// v = the elements from p on, as double.
template <class V>
LOCKSTEP_KERNEL void load_as_double(V& v, const double* p) {
  load(v, p);
}
template <class V>
LOCKSTEP_KERNEL void load_as_double(V& v, const float* p) {
  typename VectorTypes<float, sizeof(V) / 2>::type narrow;
  load(narrow, p);
  v = __builtin_convertvector(narrow, V);
}

template <class Isa, class T>
LOCKSTEP_KERNEL double sum_of_squares(const T* p, std::size_t n) {
  constexpr std::size_t width = 16;
  constexpr std::size_t size = lanes<double, Isa>;
  using V = Vector<double, Isa>;
  V sums[width / size] = {};
  const auto add = [&](const T* next) LOCKSTEP_KERNEL_LAMBDA {
    for (std::size_t k = 0; k < width / size; ++k) {
      V v;
      load_as_double(v, next + k * size);
      accumulate(sums[k], v, v);
    }
  };
  const std::size_t whole = n - n % width;
  for (std::size_t i = 0; i < whole; i += width) add(p + i);
  if (whole < n) {
    T last[width] = {};
    std::copy_n(p + whole, n - whole, last);
    add(last);
  }
  double values[width];
  for (std::size_t k = 0; k < width / size; ++k) store(values + k * size, sums[k]);
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

}  // namespace detail

/// The order of summation depends on the size alone: 16 partial sums. Squares of floats are exact,
/// so for them the bits do not depend on the instruction set either.
template <class T>
[[nodiscard]] double sum_of_squares(std::span<const T> values) {
  return dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    return detail::sum_of_squares<Isa>(values.data(), values.size());
  });
}

}}}  // namespace lockstep::kernels
