// What Dropout and its kin share: random numbers for the values of each sample.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/random.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A probability as a template argument. (A class, because clang++ 14 takes no bare floating-point
/// number there.)
struct Probability {
  double value = 0;
  constexpr Probability(double probability) : value(probability) {}
};

namespace detail {

/// Calls f(keys, first) for each batch_multiple samples: their keys, and the first one's number. A
/// layer that draws several times gives each time another `purpose`.
template <class F>
void for_each_keys(const StepContext& context, std::size_t samples, const F& f,
                   std::uint64_t purpose = 0) {
  for (std::size_t first = 0; first < samples; first += batch_multiple) {
    std::array<std::uint64_t, batch_multiple> keys{};
    for (std::size_t i = 0; i < std::min(batch_multiple, samples - first); ++i) {
      const RandomKey key = context.random_key(first + i);
      keys[i] = (purpose == 0 ? key : key.fold_in(purpose)).value();
    }
    f(keys.data(), first);
  }
}

/// By what Dropout multiplies the values that it keeps. (At rate 1, as in Keras, there are none.)
constexpr double kept_scale(double rate) { return rate < 1 ? 1 / (1 - rate) : 0; }

/// to[f * stride + sample] = 0 with probability `rate`, else 1 / (1 - rate). `purpose`: see
/// for_each_keys.
template <class T>
void draw_mask(const StepContext& context, std::size_t samples, double rate, std::size_t features,
               std::size_t stride, T* to, std::uint64_t purpose = 0) {
  const auto draw = [&](const std::uint64_t* keys, std::size_t first) {
    kernels::dispatch(
        kernels::RandomMask<T>{.keys = keys,
                               .threshold = static_cast<std::uint64_t>(std::round(rate * 0x1p32)),
                               .scale = static_cast<T>(kept_scale(rate)),
                               .features = features,
                               .stride = stride,
                               .to = to + first});
  };
  for_each_keys(context, samples, draw, purpose);
}

/// to[f * stride + sample]: normally distributed.
template <class T>
void draw_normal(const StepContext& context, std::size_t samples, double mean, double deviation,
                 std::size_t features, std::size_t stride, T* to) {
  for_each_keys(context, samples, [&](const std::uint64_t* keys, std::size_t first) {
    kernels::dispatch(kernels::RandomNormal<T>{.keys = keys,
                                               .mean = mean,
                                               .deviation = deviation,
                                               .features = features,
                                               .stride = stride,
                                               .to = to + first});
  });
}

/// to = a * b.
template <class T>
void multiply_values(std::size_t n, const T* a, const T* b, T* to) {
  kernels::sweep(
      n, [](const auto& x, const auto& factor, auto& y) LOCKSTEP_KERNEL_LAMBDA { y = x * factor; },
      a, b, to);
}

/// In training y = x times random factors, which `Draw::template draw<T>(context, samples,
/// features, stride, to)` writes; in inference it is left alone.
template <class Draw>
struct RandomFactorLayer {
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  /// The factor of each value.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return In::size * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t size = In::size * pass.x.stride();
    if (!pass.context.training) {
      std::copy_n(pass.x.data(), size, pass.y.data());
      return;
    }
    Draw::template draw<T>(pass.context, pass.x.samples(), In::size, pass.x.stride(),
                           pass.scratch.data());
    multiply_values<T>(size, pass.x.data(), pass.scratch.data(), pass.y.data());
  }

  template <class In, class T>
  static void forward_few(const FewSamplesPass<T>& pass) {
    std::copy_n(pass.x, In::size * pass.samples, pass.y);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const std::size_t size = In::size * pass.dy.stride();
    if (pass.context.training)
      multiply_values<T>(size, pass.dy.data(), pass.scratch.data(), pass.dx.data());
    else
      std::copy_n(pass.dy.data(), size, pass.dx.data());
  }
};

}  // namespace detail
}}  // namespace lockstep
