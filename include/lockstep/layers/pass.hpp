// What a layer is given in forward and backward.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The arrays of a layer's variables, in the order in which the layer declares them; each is
/// contiguous, in canonical layout, aligned to 64 bytes.
template <class T>
using Slices = std::span<const std::span<T>>;

/// The arguments of a layer's forward.
template <class T>
struct ForwardPass {
  const StepContext& context;
  Slices<T> weights;      ///< of `variables`; read only
  Slices<T> state;        ///< of `state_variables`; forward may change it when context.training
  TensorView<const T> x;  ///< input, [samples x In::size]
  /// output, [samples x Output<In>::size]; write all of it, also the padding (finite values)
  TensorView<T> y;
  std::span<T> scratch;  ///< kept until backward; scratch<In>(x.stride()) elements, uninitialised
  const T* mask =
      nullptr;  ///< for each row of x: 1, or 0 where it does not count; null: all rows count
  const T** mask_of_y = nullptr;  ///< see set_mask
  std::span<T> temporary = {};    ///< at least temporary<In>(x.stride()) elements; others' next

  // Of a SummingLayer with adds_to_output: y = max(its output + addend, minimum).
  const T* addend = nullptr;  ///< as large as y; null: zero
  static constexpr T no_minimum = -std::numeric_limits<T>::infinity();
  T minimum = no_minimum;

  /// Says which rows of y count, with an array that lives until backward, in scratch or `mask`;
  /// null: all do. (Unless a layer says so, those of x, if it is applied row by row or keeps_mask.)
  void set_mask(const T* rows) const {
    if (mask_of_y != nullptr) *mask_of_y = rows;
  }
};

/// The arguments of a layer's forward_few: a few samples in inference, whose numbers lie one after
/// the other. There is no padding.
template <class T>
struct FewSamplesPass {
  std::size_t samples;
  Slices<T> weights;  ///< read only
  const T* x;         ///< [samples][In::size]
  T* y;               ///< [samples][Output<In>::size]
  T* scratch;         ///< scratch<In>(samples) elements
};

/// The arguments of a layer's backward. x, y, weights and scratch are as forward left them (but see
/// BackwardThroughLayer).
template <class T>
struct BackwardPass {
  const StepContext& context;
  Slices<T> weights;
  Slices<T> state;
  TensorView<const T> x;
  TensorView<const T> y;
  TensorView<T> dy;  ///< gradient of y, zero in the padding; may be overwritten
  TensorView<T>
      dx;  ///< gradient of x: write all of it, zero in the padding. Empty in backward_weights.
  Slices<T> gradients;  ///< of `variables`: assign the sum over the samples, do not accumulate
  std::span<T> scratch;
  std::span<T> temporary = {};  ///< as in forward; what forward has left there is gone
  bool keeps_dy = false;        ///< of a SummingLayer with keeps_dy: dy is needed afterwards
  T* spare = nullptr;           ///< with keeps_dy, where there is one: a free array as large as dy
  bool adds_to_dx = false;      ///< of one with adds_to_dx: dx holds what its gradient is added to
};

}}  // namespace lockstep
