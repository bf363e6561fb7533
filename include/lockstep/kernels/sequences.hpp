// Sequences: between the two layouts of a batch, longer or shorter, times a factor each.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// A batch of sequences. By rows, token t of sample s is row s * positions + t of each feature; by
/// samples, each value of a sample is a feature, number t * features + feature.
struct SequenceLayout {
  std::size_t samples = 0;
  std::size_t positions = 0;
  std::size_t features = 0;       ///< of a token
  std::size_t row_stride = 0;     ///< by rows, from a feature to the next
  std::size_t sample_stride = 0;  ///< by samples, from a feature to the next
};

namespace detail {

/// Calls move(index by rows, index by samples) for each value, in tiles that stay in the cache.
template <class Move>
void each_sequence_value(const SequenceLayout& size, Move move) {
  constexpr std::size_t tile = 16;
  for (std::size_t f = 0; f < size.features; ++f)
    for (std::size_t first_t = 0; first_t < size.positions; first_t += tile)
      for (std::size_t first_s = 0; first_s < size.samples; first_s += tile)
        for (std::size_t t = first_t; t < std::min(first_t + tile, size.positions); ++t)
          for (std::size_t s = first_s; s < std::min(first_s + tile, size.samples); ++s)
            move(f * size.row_stride + s * size.positions + t,
                 (t * size.features + f) * size.sample_stride + s);
}

/// Zeros from `used` to `stride` of each of `count` features.
template <class T>
void clear_padding(T* data, std::size_t count, std::size_t used, std::size_t stride) {
  for (std::size_t f = 0; f < count; ++f)
    std::fill(data + f * stride + used, data + (f + 1) * stride, T(0));
}

}  // namespace detail

/// From rows to samples; the padding becomes zero.
template <class T>
void rows_to_samples(const SequenceLayout& size, const T* rows, T* samples) {
  detail::each_sequence_value(
      size, [=](std::size_t row, std::size_t sample) { samples[sample] = rows[row]; });
  detail::clear_padding(samples, size.positions * size.features, size.samples, size.sample_stride);
}

/// From samples to rows; the padding becomes zero.
template <class T>
void samples_to_rows(const SequenceLayout& size, const T* samples, T* rows) {
  detail::each_sequence_value(
      size, [=](std::size_t row, std::size_t sample) { rows[row] = samples[sample]; });
  detail::clear_padding(rows, size.features, size.samples * size.positions, size.row_stride);
}

LOCKSTEP_EXTERN(void rows_to_samples<float>(const SequenceLayout&, const float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void rows_to_samples<double>(const SequenceLayout&, const double*, double*));
LOCKSTEP_EXTERN(void samples_to_rows<float>(const SequenceLayout&, const float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void samples_to_rows<double>(const SequenceLayout&, const double*, double*));

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
