// Mean and spread of each channel over a batch.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/pieces.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep::inline LOCKSTEP_ABI::kernels {

/// Features in the order [pixel][channel], each with its samples, padded to `stride`, innermost.
struct ChannelSize {
  std::size_t pixels = 1;
  std::size_t channels = 1;
  std::size_t samples = 0;
  std::size_t stride = 0;  ///< a multiple of 16
};

/// Pixels that are treated together, channel by channel: they stay in the second-level cache, and a sum over them is short
/// enough for its lanes to be of type T.
template <class T>
[[nodiscard]] constexpr std::size_t pixels_in_cache(const ChannelSize& s) noexcept {
  constexpr std::size_t elements = (std::size_t{1} << 18) / sizeof(T);
  return std::clamp<std::size_t>(elements / std::max<std::size_t>(s.channels * s.stride, 1), 1, s.pixels);
}

/// mean[c] and squares[c] = sum of (x - mean[c])^2 over pixels and samples, for kernels::dispatch; the padding does not count.
/// Zero where there are no samples.
///
/// No large number is ever subtracted from another: each block of pixels is gone through twice while it is in the cache, for
/// its mean and for the deviations from that (the corrected two-pass algorithm), and blocks are put together in double by their
/// means and sums of squares. Both in Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983.
template <class T>
struct ChannelMoments {
  ChannelSize size;
  const T* x = nullptr;
  double* mean = nullptr;
  double* squares = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    const ChannelSize s = size;
    std::fill_n(mean, s.channels, 0.0);
    std::fill_n(squares, s.channels, 0.0);
    if (s.samples == 0) return;
    const std::size_t block = pixels_in_cache<T>(s);
    for (std::size_t pixel = 0; pixel < s.pixels; pixel += block) {
      const std::size_t pixels = std::min(block, s.pixels - pixel);
      const double before = static_cast<double>(pixel * s.samples);
      const double count = static_cast<double>(pixels * s.samples);
      for (std::size_t channel = 0; channel < s.channels; ++channel) {
        const T* const from = x + (pixel * s.channels + channel) * s.stride;
        const T near = static_cast<T>(sums<Isa>(from, pixels, T(0)).first / count);
        const Sums deviation = sums<Isa>(from, pixels, near);
        const double block_mean = static_cast<double>(near) + deviation.first / count;
        const double block_squares = deviation.second - deviation.first * deviation.first / count;
        const double distance = block_mean - mean[channel];
        mean[channel] += distance * (count / (before + count));
        squares[channel] += block_squares + distance * distance * (before * count / (before + count));
      }
    }
  }

 private:
  struct Sums {
    double first;
    double second;
  };

  /// The sums of x - origin and of its square, over some pixels of one channel.
  template <class Isa>
  LOCKSTEP_KERNEL Sums sums(const T* from, std::size_t pixels, T origin) const {
    using P = Pack<T, Isa::vector_bytes>;
    constexpr std::size_t ways = 4;  // so that additions need not wait for each other
    const ChannelSize s = size;
    P first[ways], second[ways];
    for (std::size_t v = 0; v < ways; ++v) first[v] = second[v] = P(T(0));
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      for_each_sample_piece<Isa, T>(
          s.samples, [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
            for (std::size_t v = 0; v < Vectors; ++v) {
              const P deviation = keep(P(from + i + v * P::size) - P(origin));
              first[v] += deviation;
              second[v] = multiply_add(deviation, deviation, second[v]);
            }
          });
      from += s.channels * s.stride;
    }
    Sums total{0, 0};
    for (std::size_t v = 0; v < ways; ++v) {
      total.first += static_cast<double>(sum_of_lanes<T>(first[v].v));
      total.second += static_cast<double>(sum_of_lanes<T>(second[v].v));
    }
    return total;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
