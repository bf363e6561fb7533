// Transposition of the batch-innermost layout, in registers.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep::inline LOCKSTEP_ABI::kernels {

namespace detail {

/// low = a0 b0 a1 b1 ..., high = the other halves.
template <class V, std::size_t... I>
LOCKSTEP_KERNEL void interleave(const V& a, const V& b, V& low, V& high, std::index_sequence<I...>) {
  constexpr int n = sizeof...(I);
  low = __builtin_shufflevector(a, b, (static_cast<int>(I) / 2 + (I % 2 ? n : 0))...);
  high = __builtin_shufflevector(a, b, (static_cast<int>(I) / 2 + n / 2 + (I % 2 ? n : 0))...);
}

}  // namespace detail

/// The gradient of a layer's output, before its activation function: 0 where y <= minimum, else dy; so it is dy itself when
/// minimum is NaN (then y may be dy). Where `masked` is not null, it is written there too; that may be dy.
template <class T>
struct Delta {
  const T* dy = nullptr;
  const T* y = nullptr;
  T minimum = std::numeric_limits<T>::quiet_NaN();
  T* masked = nullptr;
};

/// to[j * padded_columns(rows) + i] = delta[i * columns + j], for kernels::dispatch; columns is a multiple of 16. Padding of
/// `to` becomes zero. What follows the delta in memory is fetched ahead: it is the next pixel's.
template <class T>
struct Transpose {
  Delta<T> delta;
  std::size_t rows = 0;
  std::size_t columns = 0;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const Delta<T> from = delta;
    const std::size_t to_columns = padded_columns(rows);
    const std::size_t next = rows * columns;
    for (std::size_t i = 0; i < to_columns; i += n)
      for (std::size_t j = 0; j < columns; j += n) {
        // Each round interleaves vector k with vector k + n/2; after log2(n) rounds the block is transposed.
        V block[n];
        V mixed[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (i + k >= rows) continue;
          const std::size_t place = (i + k) * columns + j;
          V y;
          load(block[k], from.dy + place);
          load(y, from.y + place);
          block[k] = y <= from.minimum ? V{} : block[k];
          if (from.masked != nullptr) store(from.masked + place, block[k]);
          __builtin_prefetch(from.dy + place + next, 0, 2);
          __builtin_prefetch(from.y + place + next, 0, 2);
        }
#pragma GCC unroll 4
        for (std::size_t round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
          for (std::size_t k = 0; k < n / 2; ++k)
            detail::interleave(block[k], block[k + n / 2], mixed[2 * k], mixed[2 * k + 1],
                               std::make_index_sequence<n>{});
#pragma GCC unroll 16
          for (std::size_t k = 0; k < n; ++k) block[k] = mixed[k];
        }
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) store(to + (j + k) * to_columns + i, block[k]);
      }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
