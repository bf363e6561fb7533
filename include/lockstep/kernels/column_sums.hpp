// Sums over the batch: gradients of biases.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// sums[j] += sum over i of from[i * panels.step + panels.offset(j)], for kernels::dispatch. Rows
/// are padded to a multiple of 16.
template <class T>
struct ColumnSums {
  const T* from = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  Panels panels;
  T* sums = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    constexpr std::size_t size = lanes<T, Isa>;
    for (std::size_t column = 0; column < columns; column += size) {
      const std::size_t first = panels.offset(column);
      Vector<T, Isa> sum{};
      for (std::size_t row = 0; row < rows; ++row) {
        Vector<T, Isa> values;
        load(values, from + first + row * panels.step);
        sum += values;
      }
      T values[size];
      store(values, sum);
      for (std::size_t j = 0; j < size && column + j < columns; ++j) sums[column + j] += values[j];
    }
  }
};

}}}  // namespace lockstep::kernels
