// Sums for each channel, over one replica's samples or over those of all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A number of values and two figures for each channel, one after the other, so that one reduction
/// carries them all.
template <std::size_t Channels>
struct ChannelStatistics {
  std::array<double, 1 + 2 * Channels> values;

  double& count() { return values[0]; }
  double* first() { return values.data() + 1; }
  double* second() { return values.data() + 1 + Channels; }
};

/// Means (first) and sums of squared deviations from them (second) of each replica become those of
/// all replicas together.
///
/// What is summed is n, n * mean and squares + n * mean^2, because a reduction can only sum, and
/// one reduction is quicker than two. The subtraction afterwards is of doubles: it costs (mean /
/// deviation)^2 * 1e-16 of the variance, less than the rounding of x to float did; and within a
/// replica nothing was subtracted.
template <std::size_t Channels>
void combine_moments(ChannelStatistics<Channels>& moments, const CrossReplicaSum& sum) {
  for (std::size_t c = 0; c < Channels; ++c) {
    double& mean = moments.first()[c];
    moments.second()[c] += moments.count() * mean * mean;
    mean *= moments.count();
  }
  sum(moments.values);
  if (moments.count() == 0) return;
  for (std::size_t c = 0; c < Channels; ++c) {
    double& mean = moments.first()[c];
    mean /= moments.count();
    moments.second()[c] = std::max(moments.second()[c] - moments.count() * mean * mean, 0.0);
  }
}

/// The same for the rows of a flat x whose mask is not 0.
template <std::size_t Channels, class T>
void masked_moments(const TensorView<const T>& x, const T* mask,
                    ChannelStatistics<Channels>& moments) {
  const auto sum = [&](const auto& of_row) {
    double total = 0;
    for (std::size_t row = 0; row < x.samples(); ++row)
      if (mask[row] != T(0)) total += of_row(row);
    return total;
  };
  moments.count() = sum([](std::size_t) { return 1.0; });
  const double share = moments.count() > 0 ? 1 / moments.count() : 0;
  for (std::size_t c = 0; c < Channels; ++c) {
    const double mean =
        share * sum([&](std::size_t row) { return static_cast<double>(x(row, c)); });
    moments.first()[c] = mean;
    moments.second()[c] = sum([&](std::size_t row) {
      const double deviation = static_cast<double>(x(row, c)) - mean;
      return deviation * deviation;
    });
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
