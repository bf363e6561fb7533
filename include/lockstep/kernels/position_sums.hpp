// Sequences plus one number for each feature and position, and the gradient of that.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Sequences in [feature][stride], those of one sample after those of another, beside an array
/// [feature][step] of one number for each position.
struct PositionSize {
  std::size_t samples = 0;
  std::size_t positions = 1;
  std::size_t features = 1;
  std::size_t stride = 0;
  std::size_t step = 0;  ///< the positions, padded to a multiple of 16
};

/// y = x + offsets[position], for kernels::dispatch. y may be x.
template <class T>
struct AddPositions {
  PositionSize size;
  const T* x = nullptr;
  const T* offsets = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const AddPositions s = *this;
    const PositionSize z = s.size;
    for (std::size_t f = 0; f < z.features; ++f) {
      const std::size_t end = z.samples * z.positions;
      for (std::size_t sample = 0; sample < z.samples; ++sample)
        for (std::size_t t = 0; t < z.positions; t += P::size) {
          const std::size_t at = f * z.stride + sample * z.positions + t;
          const P offset(s.offsets + f * z.step + t);
          const std::size_t count = z.positions - t;
          (P::load_first(s.x + at, count) + offset).store_first(s.y + at, count);
        }
      std::copy(s.x + f * z.stride + end, s.x + (f + 1) * z.stride, s.y + f * z.stride + end);
    }
  }
};

/// sums[position] = the sum of dy over the samples, in their order, for kernels::dispatch.
template <class T>
struct SumPositions {
  PositionSize size;
  const T* dy = nullptr;
  T* sums = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const SumPositions s = *this;
    const PositionSize z = s.size;
    for (std::size_t f = 0; f < z.features; ++f)
      for (std::size_t t = 0; t < z.positions; t += P::size) {
        P sum(T(0));
        for (std::size_t sample = 0; sample < z.samples; ++sample)
          sum += P::load_first(s.dy + f * z.stride + sample * z.positions + t, z.positions - t);
        sum.store(s.sums + f * z.step + t);
      }
  }
};

LOCKSTEP_KERNEL_INSTANCES(AddPositions);
LOCKSTEP_KERNEL_INSTANCES(SumPositions);

}}}  // namespace lockstep::kernels
