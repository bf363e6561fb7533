// Normalisation of each sample over its channels, and its gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector.hpp"
#include "lockstep/kernels/vector_loops.hpp"

// mean and inverse (1 / sqrt(variance + epsilon)) are arrays of [pixels][stride]: one of each for
// every pixel of every sample. gamma and beta may be null: then they are one and zero.

namespace lockstep::inline LOCKSTEP_ABI::kernels {

namespace detail {

/// Calls f(first, i) for each vector of samples of each pixel, padding included; see
/// for_each_group.
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_pixel(const ChannelSize& s, const F& f) {
  for_each_group<Isa, T>({.groups = s.pixels, .features = s.channels, .samples = s.stride, .stride = s.stride}, f);
}

}  // namespace detail

/// y = (x - mean) * inverse * gamma[c] + beta[c], for kernels::dispatch; mean and variance are
/// those of the pixel's channels, which are gone through twice, so that no large number is
/// subtracted from another.
template <class T>
struct LayerNormalization {
  ChannelSize size;
  const T* x = nullptr;
  const T* gamma = nullptr;
  const T* beta = nullptr;
  double epsilon = 0;
  T* mean = nullptr;
  T* inverse = nullptr;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    const P share(T(1) / static_cast<T>(s.channels));
    detail::for_each_pixel<Isa, T>(s, [&](std::size_t first, std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
      const T* const from = x + first;
      T* const to = y + first;
      P sum(T(0)), squares(T(0));
      for (std::size_t c = 0; c < s.channels; ++c) sum += P(from + c * s.stride);
      const P center = sum * share;
      for (std::size_t c = 0; c < s.channels; ++c) {
        const P deviation = P(from + c * s.stride) - center;
        squares = multiply_add(deviation, deviation, squares);
      }
      const P factor = P(T(1)) / sqrt(multiply_add(squares, share, P(static_cast<T>(epsilon))));
      for (std::size_t c = 0; c < s.channels; ++c) {
        P value = (P(from + c * s.stride) - center) * factor;
        if (gamma != nullptr) value *= P(gamma[c]);
        if (beta != nullptr) value += P(beta[c]);
        value.store(to + c * s.stride);
      }
      center.store(mean + i);
      factor.store(inverse + i);
    });
  }
};

/// sums[c] = sum of dy and products[c] = sum of dy * (x - mean) * inverse over pixels and samples,
/// for kernels::dispatch.
template <class T>
struct LayerNormalizationSums {
  ChannelSize size;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* inverse = nullptr;
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
      const std::size_t end = std::min(pixel + block, s.pixels);
      for (std::size_t channel = 0; channel < s.channels; ++channel) {
        P sum[4], product[4];
        for (std::size_t v = 0; v < 4; ++v) sum[v] = product[v] = P(T(0));
        for (std::size_t k = pixel; k < end; ++k) {
          const std::size_t feature = (k * s.channels + channel) * s.stride;
          for_each_piece<Isa, T>(s.stride, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
            for (std::size_t v = 0; v < Vectors; ++v) {
              const std::size_t at = i + v * P::size;
              const P gradient(dy + feature + at);
              const P deviation = P(x + feature + at) - P(mean + k * s.stride + at);
              sum[v] += gradient;
              product[v] = multiply_add(gradient, deviation * P(inverse + k * s.stride + at), product[v]);
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

/// dx = inverse * (g - mean of g - z * mean of g * z), for kernels::dispatch, where g = dy * gamma,
/// z = (x - mean) * inverse, and the means are over the pixel's channels. Zero where dy is. dx may
/// be dy.
template <class T>
struct LayerNormalizationInputGradient {
  ChannelSize size;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* inverse = nullptr;
  const T* gamma = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    const P share(T(1) / static_cast<T>(s.channels));
    detail::for_each_pixel<Isa, T>(s, [&](std::size_t first, std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
      const P center(mean + i);
      const P factor(inverse + i);
      const auto gradient = [&](std::size_t c) LOCKSTEP_KERNEL_LAMBDA {
        const P g(dy + first + c * s.stride);
        return gamma != nullptr ? g * P(gamma[c]) : g;
      };
      const auto normal = [&](std::size_t c)
                              LOCKSTEP_KERNEL_LAMBDA { return (P(x + first + c * s.stride) - center) * factor; };
      P sum(T(0)), product(T(0));
      for (std::size_t c = 0; c < s.channels; ++c) {
        const P g = gradient(c);
        sum += g;
        product = multiply_add(g, normal(c), product);
      }
      sum *= share;
      product *= share;
      for (std::size_t c = 0; c < s.channels; ++c)
        (factor * (gradient(c) - sum - normal(c) * product)).store(dx + first + c * s.stride);
    });
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
