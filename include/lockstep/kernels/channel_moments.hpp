// Mean and spread of each channel over a batch.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// mean[c] and squares[c] = sum of (x - mean[c])^2 over pixels and samples, for kernels::dispatch;
/// the padding does not count. Zero where there are no samples.
///
/// One pass. No large number is ever subtracted from another: each block of pixels is summed about
/// the mean of those before it (the first one about the mean of its first pixel), and blocks are
/// put together in double by their means and sums of squares. Both in Chan, Golub, LeVeque,
/// "Algorithms for computing the sample variance", 1983.
template <class T>
struct ChannelMoments {
  ChannelSize size;
  const T* x = nullptr;
  double* mean = nullptr;
  double* squares = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    const T* const from = x;
    double* const means = mean;
    double* const spreads = squares;
    std::fill_n(means, s.channels, 0.0);
    std::fill_n(spreads, s.channels, 0.0);
    if (s.samples == 0) return;
    const double samples = static_cast<double>(s.samples);
    for (std::size_t channel = 0; channel < s.channels; ++channel) {
      for (std::size_t sample = 0; sample < s.samples; ++sample)
        means[channel] += static_cast<double>(from[channel * s.stride + sample]);
      means[channel] /= samples;
    }
    sum_channels<Isa, T>(
        s,
        [&](std::size_t channel)
            LOCKSTEP_KERNEL_LAMBDA { return P(static_cast<T>(means[channel])); },
        [&](const P& origin, std::size_t element, const auto& keep, P& first, P& second)
            LOCKSTEP_KERNEL_LAMBDA {
              const P deviation = keep(P(from + element) - origin);
              first += deviation;
              second = multiply_add(deviation, deviation, second);
            },
        [&](std::size_t channel, std::size_t pixels_before, std::size_t pixels, double first,
            double second) LOCKSTEP_KERNEL_LAMBDA {
          const double before = static_cast<double>(pixels_before) * samples;
          const double count = static_cast<double>(pixels) * samples;
          const double origin = static_cast<double>(static_cast<T>(means[channel]));
          const double distance = origin + first / count - means[channel];
          means[channel] += distance * (count / (before + count));
          spreads[channel] += std::max(second - first * first / count, 0.0) +
                              distance * distance * (before * count / (before + count));
        });
  }
};

LOCKSTEP_KERNEL_INSTANCES(ChannelMoments);

}}}  // namespace lockstep::kernels
