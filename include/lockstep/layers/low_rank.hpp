// What LoRA adds to a product with a kernel: a second one, by two narrow factors.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/transpose.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// y += (x a) b for x [inputs][stride], y [units][stride], a [inputs][rank] and b [rank][units].
template <class T>
struct LowRank {
  std::size_t inputs, units, rank, stride;
  const T *a, *b;
  T* hidden;     ///< x a: rank * stride elements, kept until backward
  T* temporary;  ///< of the size below, not kept

  [[nodiscard]] static constexpr std::size_t temporary_size(std::size_t units, std::size_t rank,
                                                            std::size_t stride) {
    return rank * stride +
           std::max(padded_batch(units * rank),
                    padded_batch(kernels::dense_scratch(std::max(units, rank), stride)));
  }

  void forward(const T* x, T* y) const {
    kernels::dense_forward<T>({inputs, rank, stride}, x, a, nullptr, hidden);
    kernels::dispatch(kernels::TransposePart<T>{b, rank, units, units, temporary, rank, rank});
    kernels::dense_input_gradient<T>({units, rank, stride}, temporary, hidden, y, {}, true);
  }
  /// Gradients of both factors; leaves that of x a in the temporary memory.
  void gradients(const T* x, const T* dy, T* da, T* db) const {
    T* const transposed = temporary + rank * stride;
    kernels::dense_bias_gradient<T>({0, units, stride}, {dy, dy}, nullptr, transposed);
    kernels::dense_weight_gradient<T>({rank, units, stride}, hidden, transposed, db);
    kernels::dense_input_gradient<T>({rank, units, stride}, b, dy, temporary);
    kernels::dense_bias_gradient<T>({0, rank, stride}, {temporary, temporary}, nullptr, transposed);
    kernels::dense_weight_gradient<T>({inputs, rank, stride}, x, transposed, da);
  }
  /// After `gradients`.
  void add_input_gradient(T* dx) const {
    kernels::dense_input_gradient<T>({inputs, rank, stride}, a, temporary, dx, {}, true);
  }
};

}}}  // namespace lockstep::detail
