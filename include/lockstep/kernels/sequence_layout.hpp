// Moves the values of sequences between the two layouts of a batch.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// A batch of sequences. By rows, token t of sample s is row s * positions + t of each feature; by
/// samples, each value of a sample is a feature of its own, number t * features + feature.
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

}}}  // namespace lockstep::kernels
