// Softmax over many features, row by row.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// The bits of Softmax for one group, for kernels::dispatch. Memory is gone through in its order,
/// feature by feature, while the sums of all samples stay in the first-level cache: twice as fast
/// for the tens of thousands of classes of a language model.
template <class T>
struct SoftmaxRows {
  std::size_t features = 1;
  std::size_t samples = 0;  ///< a multiple of 16
  std::size_t stride = 0;
  const T* x = nullptr;
  T* y = nullptr;        ///< may be x; null: not wanted
  T* largest = nullptr;  ///< [samples]
  T* sum = nullptr;      ///< of exp(x - largest), [samples]
  T* factors = nullptr;  ///< scratch, [samples]; null without y

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const SoftmaxRows s = *this;
    const auto at = [](const T* p) LOCKSTEP_KERNEL_LAMBDA { return P(p); };
    for (std::size_t i = 0; i < s.samples; i += P::size) {
      at(s.x + i).store(s.largest + i);
      P(T(0)).store(s.sum + i);
    }
    for (std::size_t c = 1; c < s.features; ++c)
      for (std::size_t i = 0; i < s.samples; i += P::size)
        max(at(s.x + c * s.stride + i), at(s.largest + i)).store(s.largest + i);
    for (std::size_t c = 0; c < s.features; ++c)
      for (std::size_t i = 0; i < s.samples; i += P::size) {
        const P value = exp(at(s.x + c * s.stride + i) - at(s.largest + i));
        (at(s.sum + i) + value).store(s.sum + i);
        if (s.y != nullptr) value.store(s.y + c * s.stride + i);
      }
    if (s.y == nullptr) return;
    for (std::size_t i = 0; i < s.samples; i += P::size)
      (P(T(1)) / at(s.sum + i)).store(s.factors + i);
    for (std::size_t c = 0; c < s.features; ++c)
      for (std::size_t i = 0; i < s.samples; i += P::size)
        (at(s.y + c * s.stride + i) * at(s.factors + i)).store(s.y + c * s.stride + i);
  }
};

LOCKSTEP_KERNEL_INSTANCES(SoftmaxRows);

}}}  // namespace lockstep::kernels
