// Copies between a Sequence, whose tokens lie as samples do, and a Shape.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/sequence_layout.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class S, class T, class U>
kernels::SequenceLayout sequence_layout(const TensorView<T>& rows, const TensorView<U>& samples) {
  return {.samples = samples.samples(),
          .positions = S::positions,
          .features = S::Token::size,
          .row_stride = rows.stride(),
          .sample_stride = samples.stride()};
}

/// `S` is the Sequence that is by rows.
template <class S, class T>
void copy_to_samples(TensorView<const T> rows, TensorView<T> samples) {
  kernels::rows_to_samples<T>(sequence_layout<S>(rows, samples), rows.data(), samples.data());
}
template <class S, class T>
void copy_to_rows(TensorView<const T> samples, TensorView<T> rows) {
  kernels::samples_to_rows<T>(sequence_layout<S>(rows, samples), samples.data(), rows.data());
}

/// A layer that sees its input as another Shape: for nothing, but if that is a Sequence.
struct ReshapingLayer {
  static constexpr bool aliases_input = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <class In, class T, class Pass>
  static void forward(const Pass& pass) {
    copy_to_samples<In, T>(pass.x, pass.y);
  }
  template <class In, class T, class Pass>
  static void backward(const Pass& pass) {
    copy_to_rows<In, T>(pass.dy, pass.dx);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
