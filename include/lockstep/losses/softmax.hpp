// Softmax over the classes, for the losses that take logits.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/softmax.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a loss needs of batch_multiple samples: the log of the sum of exponentials is
/// log(sum) + largest.
template <class T>
struct SoftmaxBlock {
  alignas(64) T largest[batch_multiple];  ///< of the sample's logits
  alignas(64) T sum[batch_multiple];      ///< of exp(logit - largest)
};

/// For the samples first, ..., first + batch_multiple - 1, padding included. `softmax` may be
/// empty.
template <class T>
SoftmaxBlock<T> softmax_block(TensorView<const T> logits, TensorView<T> softmax, std::size_t first) {
  SoftmaxBlock<T> block;
  kernels::dispatch(
      kernels::Softmax<T>{.size = {.features = logits.features(), .samples = batch_multiple, .stride = logits.stride()},
                          .x = logits.data() + first,
                          .y = softmax.empty() ? nullptr : softmax.data() + first,
                          .largest = block.largest,
                          .sum = block.sum});
  return block;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
