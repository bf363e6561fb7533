// Shifting and scaling of each channel, and the gradients of batch normalisation.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/channel_moments.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/pieces.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep::inline LOCKSTEP_ABI::kernels {

namespace detail {

/// Calls f(channel, first element) for each feature.
template <class F>
LOCKSTEP_KERNEL void for_each_feature(const ChannelSize& s, const F& f) {
  for (std::size_t pixel = 0; pixel < s.pixels; ++pixel)
    for (std::size_t channel = 0; channel < s.channels; ++channel)
      f(channel, (pixel * s.channels + channel) * s.stride);
}

}  // namespace detail

/// y = (x - mean[c]) * scale[c] + offset[c], for kernels::dispatch; zero in the padding, which grows in no layer then.
template <class T>
struct ScaleChannels {
  ChannelSize size;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* scale = nullptr;
  const T* offset = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    detail::for_each_feature(s, [&](std::size_t channel, std::size_t feature) LOCKSTEP_KERNEL_LAMBDA {
      const P center(mean[channel]), factor(scale[channel]), shift(offset[channel]);
      const T* const from = x + feature;
      T* const to = y + feature;
      if (s.samples < s.stride) std::fill(to + s.samples, to + s.stride, T(0));
      for_each_sample_piece<Isa, T>(
          s.samples, [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
            for (std::size_t v = 0; v < Vectors; ++v)
              keep(multiply_add(P(from + i + v * P::size) - center, factor, shift)).store(to + i + v * P::size);
          });
    });
  }
};

/// sums[c] = sum of dy and products[c] = sum of dy * (x - mean[c]) over pixels and samples, for kernels::dispatch.
template <class T>
struct ChannelGradients {
  ChannelSize size;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* dy = nullptr;  ///< zero in the padding
  double* sums = nullptr;
  double* products = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    std::fill_n(sums, s.channels, 0.0);
    std::fill_n(products, s.channels, 0.0);
    const std::size_t block = pixels_in_cache<T>(s);
    for (std::size_t pixel = 0; pixel < s.pixels; pixel += block) {
      const std::size_t pixels = std::min(block, s.pixels - pixel);
      for (std::size_t channel = 0; channel < s.channels; ++channel) {
        const P center(mean[channel]);
        P sum[4], product[4];
        for (std::size_t v = 0; v < 4; ++v) sum[v] = product[v] = P(T(0));
        for (std::size_t k = 0; k < pixels; ++k) {
          const std::size_t feature = ((pixel + k) * s.channels + channel) * s.stride;
          for_each_piece<Isa, T>(s.stride, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
            for (std::size_t v = 0; v < Vectors; ++v) {
              const P gradient(dy + feature + i + v * P::size);
              sum[v] += gradient;
              product[v] = multiply_add(gradient, P(x + feature + i + v * P::size) - center, product[v]);
            }
          });
        }
        for (std::size_t v = 0; v < 4; ++v) {
          sums[channel] += static_cast<double>(sum_of_lanes<T>(sum[v].v));
          products[channel] += static_cast<double>(sum_of_lanes<T>(product[v].v));
        }
      }
    }
  }
};

/// dx = dy * scale[c] + (x - mean[c]) * slope[c] + offset[c], for kernels::dispatch; zero in the padding. dx may be dy.
template <class T>
struct ChannelInputGradient {
  ChannelSize size;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* dy = nullptr;
  const T* scale = nullptr;
  const T* slope = nullptr;
  const T* offset = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    detail::for_each_feature(s, [&](std::size_t channel, std::size_t feature) LOCKSTEP_KERNEL_LAMBDA {
      const P center(mean[channel]), factor(scale[channel]), inclination(slope[channel]), shift(offset[channel]);
      const T* const gradient = dy + feature;
      const T* const from = x + feature;
      T* const to = dx + feature;
      for_each_sample_piece<Isa, T>(
          s.samples, [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
            for (std::size_t v = 0; v < Vectors; ++v) {
              const P rest = multiply_add(P(from + i + v * P::size) - center, inclination, shift);
              keep(multiply_add(P(gradient + i + v * P::size), factor, rest)).store(to + i + v * P::size);
            }
          });
      if (s.samples < s.stride) std::fill(to + s.samples, to + s.stride, T(0));
    });
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
