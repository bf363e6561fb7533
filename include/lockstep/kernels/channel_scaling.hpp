// Shifting and scaling of each channel, and the gradients of batch normalisation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector.hpp"
#include "lockstep/kernels/vector_loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Calls f(channel, first element) for each feature.
template <class F>
LOCKSTEP_KERNEL void for_each_feature(const ChannelSize& s, const F& f) {
  for (std::size_t pixel = 0; pixel < s.pixels; ++pixel)
    for (std::size_t channel = 0; channel < s.channels; ++channel)
      f(channel, (pixel * s.channels + channel) * s.stride);
}

}  // namespace detail

/// y = max((x - mean[c]) * scale[c] + offset[c] + addend, minimum), for kernels::dispatch; zero in
/// the padding, which grows in no layer then. NaN stays.
template <class T>
struct ScaleChannels {
  ChannelSize size;
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* scale = nullptr;
  const T* offset = nullptr;
  T minimum = -std::numeric_limits<T>::infinity();
  T* y = nullptr;
  const T* addend = nullptr;  ///< as large as x; null: zero

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    if (addend == nullptr)
      scale_all<Isa>([](const auto& value, std::size_t) LOCKSTEP_KERNEL_LAMBDA { return value; });
    else
      scale_all<Isa>([other = addend](const auto& value, std::size_t element)
                         LOCKSTEP_KERNEL_LAMBDA {
                           using P = std::remove_cvref_t<decltype(value)>;
                           return value + P(other + element);
                         });
  }

 private:
  template <class Isa, class Add>
  LOCKSTEP_KERNEL void scale_all(const Add& add) const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    const P least(minimum);
    detail::for_each_feature(
        s, [&](std::size_t channel, std::size_t feature) LOCKSTEP_KERNEL_LAMBDA {
          const P center(mean[channel]), factor(scale[channel]), shift(offset[channel]);
          const T* const from = x + feature;
          T* const to = y + feature;
          if (s.samples < s.stride) std::fill(to + s.samples, to + s.stride, T(0));
          for_each_sample_piece<Isa, T>(
              s.samples,
              [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
                for (std::size_t v = 0; v < Vectors; ++v) {
                  const std::size_t place = i + v * P::size;
                  const P value = multiply_add(P(from + place) - center, factor, shift);
                  keep(max(least, add(value, feature + place))).store(to + place);
                }
              });
        });
  }
};

/// What the gradients of ScaleChannels start from. dy counts only where (x - mean[c]) * scale[c] +
/// offset[c] was above `minimum`.
template <class T>
struct ScaledDelta {
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* scale = nullptr;
  const T* offset = nullptr;
  T minimum = -std::numeric_limits<T>::infinity();
  const T* dy = nullptr;  ///< zero in the padding

  /// The same for one channel.
  template <class P>
  struct OfChannel {
    P center, factor, shift;
  };
  template <class P>
  LOCKSTEP_KERNEL OfChannel<P> of_channel(std::size_t channel) const {
    return {P(mean[channel]), P(scale[channel]), P(offset[channel])};
  }

  /// dy and x - mean at one place.
  template <class P>
  LOCKSTEP_KERNEL void get(const OfChannel<P>& channel, std::size_t element, P& gradient,
                           P& deviation) const {
    deviation = P(x + element) - channel.center;
    const P value = multiply_add(deviation, channel.factor, channel.shift);
    gradient = select(value <= P(minimum), P(T(0)), P(dy + element));
  }
};

/// sums[c] = sum of dy and products[c] = sum of dy * (x - mean[c]) over pixels and samples, for
/// kernels::dispatch.
template <class T>
struct ChannelGradients {
  ChannelSize size;
  ScaledDelta<T> delta;
  double* sums = nullptr;
  double* products = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    constexpr std::size_t ahead = 4096 / sizeof(T);
    const ScaledDelta<T> d = delta;
    double* const totals = sums;
    double* const product_totals = products;
    std::fill_n(totals, size.channels, 0.0);
    std::fill_n(product_totals, size.channels, 0.0);
    sum_channels<Isa, T>(
        size,
        [&](std::size_t channel)
            LOCKSTEP_KERNEL_LAMBDA { return d.template of_channel<P>(channel); },
        [&](const auto& channel, std::size_t element, const auto& keep, P& sum, P& product)
            LOCKSTEP_KERNEL_LAMBDA {
              // (Hardware prefetchers stop at the end of each page.)
              __builtin_prefetch(d.x + element + ahead, 0, 2);
              __builtin_prefetch(d.dy + element + ahead, 0, 2);
              P gradient, deviation;
              d.get(channel, element, gradient, deviation);
              gradient = keep(gradient);
              sum += gradient;
              product = multiply_add(gradient, keep(deviation), product);
            },
        [&](std::size_t channel, std::size_t, std::size_t, double sum, double product)
            LOCKSTEP_KERNEL_LAMBDA {
              totals[channel] += sum;
              product_totals[channel] += product;
            });
  }
};

/// dx = dy * scale[c] + (x - mean[c]) * slope[c] + offset[c], for kernels::dispatch; zero in the
/// padding. dx may be dy.
template <class T>
struct ChannelInputGradient {
  ChannelSize size;
  ScaledDelta<T> delta;
  const T* slope = nullptr;
  const T* offset = nullptr;  ///< not delta's
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ChannelSize s = size;
    const ScaledDelta<T> d = delta;
    detail::for_each_feature(
        s, [&](std::size_t channel, std::size_t feature) LOCKSTEP_KERNEL_LAMBDA {
          const auto of_channel = d.template of_channel<P>(channel);
          const P inclination(slope[channel]), shift(offset[channel]);
          T* const to = dx + feature;
          for_each_sample_piece<Isa, T>(
              s.samples,
              [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
                for (std::size_t v = 0; v < Vectors; ++v) {
                  P gradient, deviation;
                  d.get(of_channel, feature + i + v * P::size, gradient, deviation);
                  const P rest = multiply_add(deviation, inclination, shift);
                  keep(multiply_add(gradient, of_channel.factor, rest)).store(to + i + v * P::size);
                }
              });
          if (s.samples < s.stride) std::fill(to + s.samples, to + s.stride, T(0));
        });
  }
};

LOCKSTEP_KERNEL_INSTANCES(ScaleChannels);
LOCKSTEP_KERNEL_INSTANCES(ChannelGradients);
LOCKSTEP_KERNEL_INSTANCES(ChannelInputGradient);

}}}  // namespace lockstep::kernels
