// Sums over the pixels and samples of each channel, their mean and spread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector.hpp"
#include "lockstep/kernels/vector_loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Features in the order [pixel][channel], each with its samples, padded to `stride`, innermost.
struct ChannelSize {
  std::size_t pixels = 1;
  std::size_t channels = 1;
  std::size_t samples = 0;
  std::size_t stride = 0;  ///< a multiple of 16
};

/// Pixels that are treated together, channel by channel: they stay in the second-level cache, and a
/// sum over them is short enough for its lanes to be of type T.
template <class T>
[[nodiscard]] constexpr std::size_t pixels_in_cache(const ChannelSize& s) noexcept {
  constexpr std::size_t elements = (std::size_t{1} << 18) / sizeof(T);
  return std::clamp<std::size_t>(elements / std::max<std::size_t>(s.channels * s.stride, 1), 1,
                                 s.pixels);
}

/// Two sums for each channel, block of pixels by block of pixels, in the order of memory.
///
/// For each channel and pixel, `constants(channel)` is called, and its result is handed to
/// `add(constants, element, keep, first, second)` for each vector of the samples: it adds to the
/// packs first and second; keep as in for_each_sample_piece. After a block, `take(channel, pixels
/// before it, pixels in it, sum of first, sum of second)`. A block is so short that lanes may be of
/// type T.
template <class Isa, class T, class Constants, class Add, class Take>
LOCKSTEP_KERNEL void sum_channels(const ChannelSize& size, const Constants& constants,
                                  const Add& add, const Take& take) {
  using P = Pack<T, Isa::vector_bytes>;
  constexpr std::size_t group =
      32;  // channels whose sums are kept at once: in the first-level cache
  constexpr std::size_t summands = 256;
  const ChannelSize s = size;
  const std::size_t block =
      std::max<std::size_t>(summands * P::size / std::max<std::size_t>(s.stride, 1), 1);
  P first[group], second[group];
  for (std::size_t channel = 0; channel < s.channels; channel += group) {
    const std::size_t channels = std::min(group, s.channels - channel);
    for (std::size_t pixel = 0; pixel < s.pixels; pixel += block) {
      const std::size_t end = std::min(pixel + block, s.pixels);
      for (std::size_t c = 0; c < channels; ++c) first[c] = second[c] = P(T(0));
      for (std::size_t p = pixel; p < end; ++p) {
        std::size_t feature = (p * s.channels + channel) * s.stride;
        for (std::size_t c = 0; c < channels; ++c, feature += s.stride) {
          const auto of_channel = constants(channel + c);
          P sum = first[c], other = second[c];
          for_each_sample_piece<Isa, T>(
              s.samples,
              [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
                for (std::size_t v = 0; v < Vectors; ++v)
                  add(of_channel, feature + i + v * P::size, keep, sum, other);
              });
          first[c] = sum;
          second[c] = other;
        }
      }
      for (std::size_t c = 0; c < channels; ++c)
        take(channel + c, pixel, end - pixel, static_cast<double>(sum_of_lanes<T>(first[c].v)),
             static_cast<double>(sum_of_lanes<T>(second[c].v)));
    }
  }
}

/// totals[c] = sum of x over pixels and samples, for kernels::dispatch; the padding does not count.
template <class T>
struct ChannelTotals {
  ChannelSize size;
  const T* x = nullptr;
  double* totals = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const T* const from = x;
    double* const to = totals;
    std::fill_n(to, size.channels, 0.0);
    sum_channels<Isa, T>(
        size, [](std::size_t channel) LOCKSTEP_KERNEL_LAMBDA { return channel; },
        [&](std::size_t, std::size_t element, const auto& keep, P& sum, P&)
            LOCKSTEP_KERNEL_LAMBDA { sum += keep(P(from + element)); },
        [&](std::size_t channel, std::size_t, std::size_t, double sum, double)
            LOCKSTEP_KERNEL_LAMBDA { to[channel] += sum; });
  }
};

LOCKSTEP_KERNEL_INSTANCES(ChannelTotals);

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
