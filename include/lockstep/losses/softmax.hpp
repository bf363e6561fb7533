// Softmax over the classes, for the losses that take logits.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a loss needs of batch_multiple samples: the log of the sum of exponentials is log(sum) + largest.
template <class T>
struct SoftmaxBlock {
  alignas(64) T largest[batch_multiple];  ///< of the sample's logits
  alignas(64) T sum[batch_multiple];      ///< of exp(logit - largest)
};

/// For kernels::dispatch. Softmax itself is written only where `softmax` is not null. (The kernels' exponential, as that
/// of the standard library may differ between machines in its last bit.)
template <class T>
struct SoftmaxKernel {
  const T* logits;
  T* softmax;
  std::size_t classes;
  std::size_t stride;
  SoftmaxBlock<T>& block;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using Pack = kernels::Pack<T, Isa::vector_bytes>;
    for (std::size_t lane = 0; lane < batch_multiple; lane += Pack::size) {
      Pack largest(logits + lane);
      for (std::size_t c = 1; c < classes; ++c) largest = max(Pack(logits + c * stride + lane), largest);
      Pack sum(T(0));
      for (std::size_t c = 0; c < classes; ++c) {
        const Pack exponential = exp(Pack(logits + c * stride + lane) - largest);
        sum += exponential;
        if (softmax != nullptr) exponential.store(softmax + c * stride + lane);
      }
      largest.store(block.largest + lane);
      sum.store(block.sum + lane);
      if (softmax == nullptr) continue;
      const Pack scale = Pack(T(1)) / sum;
      for (std::size_t c = 0; c < classes; ++c) {
        T* const p = softmax + c * stride + lane;
        (Pack(p) * scale).store(p);
      }
    }
  }
};

/// For the samples first, ..., first + batch_multiple - 1, padding included. `softmax` may be empty.
template <class T>
SoftmaxBlock<T> softmax_block(TensorView<const T> logits, TensorView<T> softmax, std::size_t first) {
  SoftmaxBlock<T> block;
  kernels::dispatch(SoftmaxKernel<T>{logits.data() + first, softmax.empty() ? nullptr : softmax.data() + first,
                                     logits.features(), logits.stride(), block});
  return block;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
