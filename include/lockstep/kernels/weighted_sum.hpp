// Weighted sums over the steps of sequences, and their gradient.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// y[sample] = sum over steps of weights * x, for kernels::dispatch; x and weights are
/// [step][batch]. A value whose weight is zero does not count, even if it is no number.
template <class T>
struct WeightedSum {
  std::size_t steps = 0;
  std::size_t batch = 0;  ///< a multiple of 16
  const T* x = nullptr;
  const T* weights = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const WeightedSum s = *this;
    for (std::size_t b = 0; b < s.batch; b += P::size) {
      P sum(T(0));
      for (std::size_t step = 0; step < s.steps; ++step) {
        const P weight(s.weights + step * s.batch + b);
        sum += select(weight != P(T(0)), weight * P(s.x + step * s.batch + b), P(T(0)));
      }
      sum.store(s.y + b);
    }
  }
};

/// dx = weights * dy, for kernels::dispatch.
template <class T>
struct WeightedSumGradient {
  std::size_t steps = 0;
  std::size_t batch = 0;
  const T* dy = nullptr;
  const T* weights = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const WeightedSumGradient s = *this;
    for (std::size_t step = 0; step < s.steps; ++step)
      for (std::size_t b = 0; b < s.batch; b += P::size)
        (P(s.weights + step * s.batch + b) * P(s.dy + b)).store(s.dx + step * s.batch + b);
  }
};

LOCKSTEP_KERNEL_INSTANCES(WeightedSum);
LOCKSTEP_KERNEL_INSTANCES(WeightedSumGradient);

}}}  // namespace lockstep::kernels
