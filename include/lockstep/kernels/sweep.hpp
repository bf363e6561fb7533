// Element-wise loops over arrays, compiled for each instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// What stands in for the last, incomplete vector of an array.
template <class T, std::size_t Bytes>
struct Tail {
  alignas(Bytes) T values[Bytes / sizeof(T)] = {};
};

template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL void store_back(const Pack<T, Bytes>& pack, T* p) {
  pack.store(p);
}
template <class T, std::size_t Bytes>
LOCKSTEP_KERNEL void store_back(const Pack<T, Bytes>&, const T*) {}

template <class T>
LOCKSTEP_KERNEL void copy_back(const T* from, T* to, std::size_t n) {
  std::copy_n(from, n, to);
}
template <class T>
LOCKSTEP_KERNEL void copy_back(const T*, const T*, std::size_t) {}

/// One vector of each array.
template <std::size_t Bytes, class F, class... P>
LOCKSTEP_KERNEL void sweep_vector(const F& f, P*... arrays) {
  [&](auto&&... packs) LOCKSTEP_KERNEL_LAMBDA {
    f(packs...);
    (store_back(packs, arrays), ...);
  }(Pack<std::remove_const_t<P>, Bytes>(arrays)...);
}

/// (f and the pointers by value: what is only known by address would be loaded again after every
/// store.)
template <std::size_t Bytes, std::size_t Size, class F, class... P>
LOCKSTEP_KERNEL void sweep_all(std::size_t n, const F f, P*... arrays) {
  const std::size_t whole = n - n % Size;
  for (std::size_t i = 0; i < whole; i += Size) sweep_vector<Bytes>(f, (arrays + i)...);
  if (whole == n) return;
  [&](auto&&... tails) LOCKSTEP_KERNEL_LAMBDA {
    (std::copy_n(arrays + whole, n - whole, tails.values), ...);
    sweep_vector<Bytes>(f, static_cast<P*>(tails.values)...);
    (copy_back(tails.values, arrays + whole, n - whole), ...);
  }(Tail<std::remove_const_t<P>, Bytes>{}...);
}

}  // namespace detail

/// Calls f on n elements of each array, one vector of them at a time: `f(Pack&...)`, one argument
/// for each array in order. What f leaves in the pack of a non-const array is written to it; the
/// packs of const arrays are inputs. All arrays have elements of one type, float or double. Arrays
/// may be the same; they must not overlap otherwise.
///
/// f must be LOCKSTEP_KERNEL_LAMBDA and work lane by lane. Every element, also in the incomplete
/// last vector, goes through the same instructions, so results do not depend on how a range is
/// split. f may be called on zeros beyond the end.
/// @code
/// sweep(n, [=](auto& p, const auto& g) LOCKSTEP_KERNEL_LAMBDA { p -= rate * g; }, parameters,
///       gradients);
/// @endcode
template <class F, class... P>
void sweep(std::size_t n, const F& f, P*... arrays) {
  static_assert(sizeof...(P) > 0, "lockstep: sweep needs at least one array");
  using T = std::remove_const_t<std::tuple_element_t<0, std::tuple<P...>>>;
  static_assert((std::is_same_v<std::remove_const_t<P>, T> && ...),
                "lockstep: all arrays of a sweep have the same element type");
  dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    detail::sweep_all<Isa::vector_bytes, lanes<T, Isa>>(n, f, arrays...);
  });
}

/// The sum of f over n elements of each array, in double: `f(const Pack&...)` returns a Pack.
/// Arrays as for sweep. The order of summation depends on n and on nothing else: 16 partial sums in
/// T over blocks of 1024 elements, their sums in double.
/// @code
/// const double squares =
///     sweep_sum(n, [](const auto& g) LOCKSTEP_KERNEL_LAMBDA { return g * g; }, gradients);
/// @endcode
template <class F, class... P>
[[nodiscard]] double sweep_sum(std::size_t n, const F& f, const P*... arrays) {
  static_assert(sizeof...(P) > 0, "lockstep: sweep_sum needs at least one array");
  using T = std::tuple_element_t<0, std::tuple<P...>>;
  static_assert((std::is_same_v<P, T> && ...),
                "lockstep: all arrays of a sweep have the same element type");
  double total = 0;
  dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    using Packed = Pack<T, Isa::vector_bytes>;
    constexpr std::size_t width = 16;
    constexpr std::size_t block = 1024;
    constexpr std::size_t size = Packed::size;
    for (std::size_t begin = 0; begin < n; begin += block) {
      const std::size_t end = std::min(n, begin + block);
      Packed sums[width / size];
      for (Packed& sum : sums) sum = T(0);
      for (std::size_t i = begin; i < end; i += width) {
        const std::size_t left = end - i;
        if (left >= width) {
          for (std::size_t k = 0; k < width / size; ++k)
            sums[k] += f(Packed(arrays + i + k * size)...);
          continue;
        }
        T values[width];
        [&](auto&&... tails) LOCKSTEP_KERNEL_LAMBDA {
          (std::copy_n(arrays + i, left, tails.values), ...);
          for (std::size_t k = 0; k < width / size; ++k)
            f(Packed(tails.values + k * size)...).store(values + k * size);
        }(detail::Tail<P, width * sizeof(T)>{}...);
        std::fill(values + left, values + width, T(0));
        for (std::size_t k = 0; k < width / size; ++k) sums[k] += Packed(values + k * size);
      }
      T values[width];
      for (std::size_t k = 0; k < width / size; ++k) sums[k].store(values + k * size);
      for (const T value : values) total += static_cast<double>(value);
    }
  });
  return total;
}

}}}  // namespace lockstep::kernels
