// Softmax over the classes, for the losses that take logits.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/softmax_rows.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a loss needs of some samples: the log of the sum of exponentials is log(sum) + largest.
template <class T>
struct SoftmaxBlock {
  static constexpr std::size_t samples = 16 * batch_multiple;  ///< at most
  alignas(64) T largest[samples];                              ///< of the sample's logits
  alignas(64) T sum[samples];                                  ///< of exp(logit - largest)
};

/// For the samples from `first` on, a multiple of batch_multiple, as many as a block takes, padding
/// included. `softmax` may be empty.
template <class T>
void softmax_block(TensorView<const T> logits, TensorView<T> softmax, std::size_t first,
                   SoftmaxBlock<T>& block) {
  alignas(64) T factors[SoftmaxBlock<T>::samples];
  kernels::dispatch(kernels::SoftmaxRows<T>{
      .features = logits.features(),
      .samples = std::min(SoftmaxBlock<T>::samples, logits.stride() - first),
      .stride = logits.stride(),
      .x = logits.data() + first,
      .y = softmax.empty() ? nullptr : softmax.data() + first,
      .largest = block.largest,
      .sum = block.sum,
      .factors = factors});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
