// Transposition of a part of a matrix, of any size.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// to[j * to_step + i] = from[i * from_step + j] for rows i and columns j of `from`, for
/// kernels::dispatch. Rows of `to` are filled up with zeros to to_columns elements. Nothing else is
/// read or written.
template <class T>
struct TransposePart {
  const T* from = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t from_step = 0;
  T* to = nullptr;
  std::size_t to_columns = 0;  ///< at least `rows`
  std::size_t to_step = 0;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using V = Vector<T, Isa>;
    constexpr std::size_t n = lanes<T, Isa>;
    const TransposePart s = *this;
    for (std::size_t i = 0; i < s.to_columns; i += n) {
      for (std::size_t j = 0; j < s.columns; j += n) {
        V block[n];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k) {
          block[k] = V{};
          if (i + k < s.rows)
            load_first(block[k], s.from + (i + k) * s.from_step + j, s.columns - j);
        }
        detail::transpose_block(block);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n; ++k)
          if (j + k < s.columns)
            store_first(s.to + (j + k) * s.to_step + i, block[k], s.to_columns - i);
      }
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(TransposePart);

}}}  // namespace lockstep::kernels
