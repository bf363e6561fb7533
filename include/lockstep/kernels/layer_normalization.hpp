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

// Two normalisations: Centered, of LayerNormalization, is about the mean; the other, of
// RMSNormalization, takes the mean to be zero, and its arrays of means are null. mean and inverse
// (1 / sqrt(variance + epsilon)) are arrays of [pixels][stride]: one of each for every pixel of
// every sample. gamma and beta may be null: then they are one and zero.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Calls `f.template operator()<Vectors>(first, i)` for pieces of Vectors vectors of the samples of
/// each pixel, padding included: `first` is the piece's element of the pixel's first channel, i its
/// element of an array [pixels][stride]. (Four vectors are a run of memory long enough for the
/// caches; one after the other, they would take a line of each channel at a time.)
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_pixel(const ChannelSize& s, const F& f) {
  for (std::size_t pixel = 0; pixel < s.pixels; ++pixel)
    for_each_piece<Isa, T>(
        s.stride, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
          f.template operator()<Vectors>(pixel * s.channels * s.stride + i, pixel * s.stride + i);
        });
}

}  // namespace detail

/// y = (x - mean) * inverse * gamma[c] + beta[c], for kernels::dispatch; mean and variance are
/// those of the pixel's channels, which are gone through twice, so that no large number is
/// subtracted from another.
template <class T, bool Centered = true>
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
    detail::for_each_pixel<Isa, T>(s, [&]<std::size_t Vectors>(
                                          std::size_t first, std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
      const T* from = x + first;
      P center[Vectors], squares[Vectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) center[v] = squares[v] = P(T(0));
      if constexpr (Centered) {
        for (std::size_t c = 0; c < s.channels; ++c) {
#pragma GCC unroll 4
          for (std::size_t v = 0; v < Vectors; ++v)
            center[v] += P(from + c * s.stride + v * P::size);
        }
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
          center[v] *= share;
          center[v].store(mean + i + v * P::size);
        }
      }
      for (std::size_t c = 0; c < s.channels; ++c) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
          P deviation(from + c * s.stride + v * P::size);
          if constexpr (Centered) deviation -= center[v];
          squares[v] = multiply_add(deviation, deviation, squares[v]);
        }
      }
      P factor[Vectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Vectors; ++v) {
        factor[v] = P(T(1)) / sqrt(multiply_add(squares[v], share, P(static_cast<T>(epsilon))));
        factor[v].store(inverse + i + v * P::size);
      }
      T* const to = y + first;
      for (std::size_t c = 0; c < s.channels; ++c) {
        const P scale(gamma != nullptr ? gamma[c] : T(1)), shift(beta != nullptr ? beta[c] : T(0));
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
          P value(from + c * s.stride + v * P::size);
          if constexpr (Centered) value -= center[v];
          multiply_add(value * factor[v], scale, shift).store(to + c * s.stride + v * P::size);
        }
      }
    });
  }
};

/// products[c] = sum of dy * (x - mean) * inverse and, if Centered, sums[c] = sum of dy over pixels
/// and samples, for kernels::dispatch.
template <class T, bool Centered = true>
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
    if constexpr (Centered) std::fill_n(sums, s.channels, 0.0);
    std::fill_n(products, s.channels, 0.0);
    const std::size_t block = pixels_in_cache<T>(s);
    for (std::size_t pixel = 0; pixel < s.pixels; pixel += block) {
      const std::size_t end = std::min(pixel + block, s.pixels);
      for (std::size_t channel = 0; channel < s.channels; ++channel) {
        P sum[4], product[4];
        for (std::size_t v = 0; v < 4; ++v) sum[v] = product[v] = P(T(0));
        for (std::size_t k = pixel; k < end; ++k) {
          const std::size_t feature = (k * s.channels + channel) * s.stride;
          for_each_piece<Isa, T>(
              s.stride, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
#pragma GCC unroll 4
                for (std::size_t v = 0; v < Vectors; ++v) {
                  const std::size_t at = i + v * P::size;
                  const P gradient(dy + feature + at);
                  P deviation(x + feature + at);
                  if constexpr (Centered) {
                    deviation -= P(mean + k * s.stride + at);
                    sum[v] += gradient;
                  }
                  product[v] = multiply_add(gradient, deviation * P(inverse + k * s.stride + at),
                                            product[v]);
                }
              });
        }
        for (std::size_t v = 0; v < 4; ++v) {
          if constexpr (Centered) sums[channel] += static_cast<double>(sum_of_lanes<T>(sum[v].v));
          products[channel] += static_cast<double>(sum_of_lanes<T>(product[v].v));
        }
      }
    }
  }
};

/// dx = inverse * (g - mean of g - z * mean of g * z), for kernels::dispatch, where g = dy * gamma,
/// z = (x - mean) * inverse, and the means are over the pixel's channels; that of g counts only if
/// Centered. Zero where dy is. dx may be dy.
template <class T, bool Centered = true>
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
    detail::for_each_pixel<Isa, T>(
        s, [&]<std::size_t Vectors>(std::size_t first, std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
          P center[Vectors], factor[Vectors], sum[Vectors], product[Vectors];
#pragma GCC unroll 4
          for (std::size_t v = 0; v < Vectors; ++v) {
            if constexpr (Centered) center[v] = P(static_cast<const T*>(mean + i + v * P::size));
            factor[v] = P(static_cast<const T*>(inverse + i + v * P::size));
            sum[v] = product[v] = P(T(0));
          }
          const auto scale = [&](std::size_t c) LOCKSTEP_KERNEL_LAMBDA {
            return P(gamma != nullptr ? gamma[c] : T(1));
          };
          const auto gradient = [&](std::size_t c, std::size_t v) LOCKSTEP_KERNEL_LAMBDA {
            return P(dy + first + c * s.stride + v * P::size);
          };
          const auto normal = [&](std::size_t c, std::size_t v) LOCKSTEP_KERNEL_LAMBDA {
            const P value(x + first + c * s.stride + v * P::size);
            if constexpr (Centered)
              return (value - center[v]) * factor[v];
            else
              return value * factor[v];
          };
          for (std::size_t c = 0; c < s.channels; ++c) {
            const P factor_of_dy = scale(c);
#pragma GCC unroll 4
            for (std::size_t v = 0; v < Vectors; ++v) {
              const P g = gradient(c, v) * factor_of_dy;
              if constexpr (Centered) sum[v] += g;
              product[v] = multiply_add(g, normal(c, v), product[v]);
            }
          }
#pragma GCC unroll 4
          for (std::size_t v = 0; v < Vectors; ++v) {
            sum[v] *= -share;
            product[v] *= -share;
          }
          for (std::size_t c = 0; c < s.channels; ++c) {
            const P factor_of_dy = scale(c);
#pragma GCC unroll 4
            for (std::size_t v = 0; v < Vectors; ++v) {
              const P rest = multiply_add(normal(c, v), product[v], sum[v]);
              (factor[v] * multiply_add(gradient(c, v), factor_of_dy, rest))
                  .store(dx + first + c * s.stride + v * P::size);
            }
          }
        });
  }
};

LOCKSTEP_KERNEL_INSTANCES(LayerNormalization, true);
LOCKSTEP_KERNEL_INSTANCES(LayerNormalization, false);
LOCKSTEP_KERNEL_INSTANCES(LayerNormalizationSums, true);
LOCKSTEP_KERNEL_INSTANCES(LayerNormalizationSums, false);
LOCKSTEP_KERNEL_INSTANCES(LayerNormalizationInputGradient, true);
LOCKSTEP_KERNEL_INSTANCES(LayerNormalizationInputGradient, false);

}}}  // namespace lockstep::kernels
