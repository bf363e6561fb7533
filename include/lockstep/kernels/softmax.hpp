// Softmax over groups of features, and its gradient.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep::inline LOCKSTEP_ABI::kernels {

/// Features in groups of `classes`, each feature with `stride` samples (a multiple of 16) innermost.
struct SoftmaxSize {
  std::size_t groups = 1;
  std::size_t classes = 1;
  std::size_t stride = 0;
};

/// y_c = exp(x_c) / sum over the group's features of exp(x), for kernels::dispatch. Computed from x - max x. y may be x.
template <class T>
struct Softmax {
  SoftmaxSize size;
  const T* x = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const std::size_t stride = size.stride;
    for (std::size_t group = 0; group < size.groups; ++group)
      for (std::size_t b = 0; b < stride; b += P::size) {
        const T* from = x + group * size.classes * stride + b;
        T* to = y + group * size.classes * stride + b;
        P largest(from);
        for (std::size_t c = 1; c < size.classes; ++c) largest = max(P(from + c * stride), largest);
        P sum = 0;
        for (std::size_t c = 0; c < size.classes; ++c) {
          const P value = exp(P(from + c * stride) - largest);
          sum += value;
          value.store(to + c * stride);
        }
        const P scale = P(1) / sum;
        for (std::size_t c = 0; c < size.classes; ++c)
          (P(static_cast<const T*>(to + c * stride)) * scale).store(to + c * stride);
      }
  }
};

/// dx_c = y_c (dy_c - sum over the group's features of dy * y), for kernels::dispatch. dx may be dy.
template <class T>
struct SoftmaxGradient {
  SoftmaxSize size;
  const T* dy = nullptr;
  const T* y = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const std::size_t stride = size.stride;
    for (std::size_t group = 0; group < size.groups; ++group)
      for (std::size_t b = 0; b < stride; b += P::size) {
        const std::size_t first = group * size.classes * stride + b;
        P sum = 0;
        for (std::size_t c = 0; c < size.classes; ++c)
          sum = multiply_add(P(dy + first + c * stride), P(y + first + c * stride), sum);
        for (std::size_t c = 0; c < size.classes; ++c)
          (P(y + first + c * stride) * (P(dy + first + c * stride) - sum)).store(dx + first + c * stride);
      }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
