// The three products of a dense layer.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/column_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/other_weights.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/transpose.hpp"

// Activations are [features][stride]: the batch, padded to `stride`, is innermost. Weights are
// [inputs][units].

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

struct DenseSize {
  std::size_t inputs = 0;
  std::size_t units = 0;
  std::size_t stride = 0;
  std::size_t inputs_after = 0;  ///< of the layer, that the next call computes
};

/// Inputs whose gradients backward computes together, weights and input: enough for both products.
[[nodiscard]] constexpr std::size_t dense_inputs_at_once(std::size_t units,
                                                         std::size_t stride) noexcept {
  return std::max(rows_at_once(units, stride), rows_at_once(stride, units));
}

/// Elements of scratch that dense_bias_gradient needs.
[[nodiscard]] constexpr std::size_t dense_scratch(std::size_t units, std::size_t stride) noexcept {
  return transposed_size(units, stride);
}

/// y[u][b] = finish(bias[u] + sum over i of weights[i][u] * x[i][b]). bias may be null: zero. Of
/// weights of another format, too.
template <class T>
void dense_forward(const DenseSize& size, const T* x, const T* weights, const T* bias, T* y,
                   Finish<T> finish = {}) {
  if (other_weights<T>.holds(weights))
    return other_weights<T>.multiply({size.inputs,
                                      size.units,
                                      size.stride,
                                      x,
                                      {1, size.stride},
                                      weights,
                                      bias,
                                      y,
                                      {1, size.stride},
                                      finish});
  multiply<T>({y, size.units, size.stride, size.stride}, weights, x, size.inputs,
              {.a_row = 1, .a = size.units, .b = {size.stride}}, bias, finish);
}

/// dx[i][b] = finish(sum over u of weights[i][u] * dy[u][b]), or with `adds` of dx and that sum.
/// One that masks needs `can_mask_input_gradient(units)`.
template <class T>
void dense_input_gradient(const DenseSize& size, const T* weights, const T* dy, T* dx,
                          Finish<T> finish = {}, bool adds = false) {
  multiply_blocks<T>({dx, size.inputs, size.stride, size.stride, 0, size.inputs_after}, weights, dy,
                     size.units, {.a_row = size.units, .a = 1, .b = {size.stride}}, {adds, nullptr},
                     finish);
}

[[nodiscard]] constexpr bool can_mask_input_gradient(std::size_t units) noexcept {
  return units <= inner_block;
}

/// What dense_bias_gradient and dense_weight_gradient do on this thread instead; null: nothing (see
/// product_instead).
template <class T>
struct DenseGradients {
  void (*bias)(const DenseSize&, const Delta<T>&, T* bias_gradient, T* scratch);
  void (*weights)(const DenseSize&, const T* x, const T* scratch, T* weight_gradient);
};
template <class T>
inline constinit thread_local const DenseGradients<T>* dense_gradients_instead = nullptr;

/// Leaves the transposed delta in scratch, in transposed_panels; bias_gradient[u] = sum over b of
/// delta[u][b]. The padding of the delta is zero. bias_gradient may be null: not wanted.
template <class T>
void transpose_delta(const DenseSize& size, const Delta<T>& delta, T* bias_gradient, T* scratch) {
  const Panels panels = transposed_panels(size.units, size.stride);
  dispatch(Transpose<T>{delta, size.units, size.stride, scratch, panels});
  if (bias_gradient == nullptr) return;
  std::fill_n(bias_gradient, size.units, T(0));
  dispatch(ColumnSums<T>{scratch, size.stride, size.units, panels, bias_gradient});
}

/// The same, for dense_weight_gradient: what is in scratch is its business.
template <class T>
void dense_bias_gradient(const DenseSize& size, const Delta<T>& delta, T* bias_gradient,
                         T* scratch) {
  if (const auto* const instead = dense_gradients_instead<T>; instead != nullptr)
    return instead->bias(size, delta, bias_gradient, scratch);
  transpose_delta(size, delta, bias_gradient, scratch);
}

/// weight_gradient[i][u] = sum over b of x[i][b] * delta[u][b].
template <class T>
void dense_weight_gradient(const DenseSize& size, const T* x, const T* scratch,
                           T* weight_gradient) {
  if (const auto* const instead = dense_gradients_instead<T>; instead != nullptr)
    return instead->weights(size, x, scratch, weight_gradient);
  multiply<T>({weight_gradient, size.inputs, size.units, size.units, 0, size.inputs_after}, x,
              scratch, size.stride,
              {.a_row = size.stride, .a = 1, .b = transposed_panels(size.units, size.stride)});
}

LOCKSTEP_EXTERN(void dense_forward<float>(const DenseSize&, const float*, const float*,
                                          const float*, float*, Finish<float>));
LOCKSTEP_EXTERN(void dense_input_gradient<float>(const DenseSize&, const float*, const float*,
                                                 float*, Finish<float>, bool));
LOCKSTEP_EXTERN(void dense_bias_gradient<float>(const DenseSize&, const Delta<float>&, float*,
                                                float*));
LOCKSTEP_EXTERN(void dense_weight_gradient<float>(const DenseSize&, const float*, const float*,
                                                  float*));
LOCKSTEP_EXTERN_DOUBLE(void dense_forward<double>(const DenseSize&, const double*, const double*,
                                                  const double*, double*, Finish<double>));
LOCKSTEP_EXTERN_DOUBLE(void dense_input_gradient<double>(const DenseSize&, const double*,
                                                         const double*, double*, Finish<double>,
                                                         bool));
LOCKSTEP_EXTERN_DOUBLE(void dense_bias_gradient<double>(const DenseSize&, const Delta<double>&,
                                                        double*, double*));
LOCKSTEP_EXTERN_DOUBLE(void dense_weight_gradient<double>(const DenseSize&, const double*,
                                                          const double*, double*));

}}}  // namespace lockstep::kernels
