// One factor for each feature of each sequence.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// y = factors * x, for kernels::dispatch; x and y are [feature][stride] with the steps of a sample
/// one after the other, factors are [feature][batch]. The padding of y becomes zero.
template <class T>
struct ScaleSequences {
  std::size_t features = 0;
  std::size_t samples = 0;
  std::size_t steps = 0;
  std::size_t stride = 0;
  std::size_t batch = 0;
  const T* x = nullptr;
  const T* factors = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ScaleSequences s = *this;
    for (std::size_t feature = 0; feature < s.features; ++feature) {
      for (std::size_t sample = 0; sample < s.samples; ++sample) {
        const P factor(s.factors[feature * s.batch + sample]);
        const std::size_t first = feature * s.stride + sample * s.steps;
        for (std::size_t step = 0; step < s.steps; step += P::size)
          (factor * P::load_first(s.x + first + step, s.steps - step))
              .store_first(s.y + first + step, s.steps - step);
      }
      std::fill(s.y + feature * s.stride + s.samples * s.steps, s.y + (feature + 1) * s.stride,
                T(0));
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(ScaleSequences);

}}}  // namespace lockstep::kernels
