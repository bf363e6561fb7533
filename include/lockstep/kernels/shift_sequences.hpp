// Sequences that become longer or shorter at their ends.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Sequences of `from_steps` and of `to_steps` steps, in [feature][stride].
struct ShiftSize {
  std::size_t features = 0;
  std::size_t samples = 0;
  std::size_t from_steps = 0, from_stride = 0;
  std::size_t to_steps = 0, to_stride = 0;
  std::size_t skip = 0;  ///< steps at the beginning that are left out
  std::size_t pad = 0;   ///< steps of zeros before the first
};

/// to[pad + step] = from[skip + step], and zeros elsewhere, also in the padding.
template <class T>
void shift_sequences(const ShiftSize& s, const T* from, T* to) {
  const std::size_t count = std::min(s.from_steps - s.skip, s.to_steps - s.pad);
  for (std::size_t feature = 0; feature < s.features; ++feature) {
    T* const row = to + feature * s.to_stride;
    std::fill_n(row, s.to_stride, T(0));
    for (std::size_t sample = 0; sample < s.samples; ++sample)
      std::copy_n(from + feature * s.from_stride + sample * s.from_steps + s.skip, count,
                  row + sample * s.to_steps + s.pad);
  }
}

}}}  // namespace lockstep::kernels
