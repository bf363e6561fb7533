// Transposition of the batch-innermost layout, in registers.
#pragma once

#include <cstddef>
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

/// to[j * padded_columns(rows) + i] = from[i * columns + j], for kernels::dispatch; columns is a multiple of 16. Padding of `to`
/// becomes zero.
template <class T>
struct Transpose {
  const T* from = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t n = lanes<T, Isa>;
    const std::size_t to_columns = padded_columns(rows);
    for (std::size_t i = 0; i < to_columns; i += n)
      for (std::size_t j = 0; j < columns; j += n) {
        // Each round interleaves vector k with vector k + n/2; after log2(n) rounds the block is transposed.
        Vector<T, Isa> block[n];
        Vector<T, Isa> next[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = Vector<T, Isa>{};
          if (i + k < rows) load(block[k], from + (i + k) * columns + j);
        }
#pragma GCC unroll 4
        for (std::size_t round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
          for (std::size_t k = 0; k < n / 2; ++k)
            detail::interleave(block[k], block[k + n / 2], next[2 * k], next[2 * k + 1], std::make_index_sequence<n>{});
#pragma GCC unroll 16
          for (std::size_t k = 0; k < n; ++k) block[k] = next[k];
        }
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) store(to + (j + k) * to_columns + i, block[k]);
      }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
