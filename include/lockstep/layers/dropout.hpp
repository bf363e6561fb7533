// Dropout: sets a random part of the values to zero in training.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/random_mask.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A probability as a template argument. (A class, because clang++ 14 takes no bare floating-point
/// number there.)
struct Probability {
  double value = 0;
  constexpr Probability(double probability) : value(probability) {}
};

/// In training each value is zero with probability Rate and is divided by 1 - Rate otherwise, so
/// that its mean stays; in inference it is left alone. For samples of any shape: `Dropout<0.5>`.
/// Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15,
/// 2014.
///
/// Value f of a sample is kept where number f of RandomStream(context.random_key(sample)) is at
/// least Rate * 2^32. So what is dropped depends on the seed, the step, the layer and the sample's
/// index in the dataset, and neither on the number of replicas nor on the instruction set.
template <Probability Rate>
struct Dropout {
  static_assert(Rate.value >= 0 && Rate.value < 1,
                "lockstep: the rate of Dropout is the part of values that is dropped: at least 0 and below 1");

  static constexpr std::string_view name = "dropout";
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
    for (std::size_t first = 0; first < pass.x.samples(); first += batch_multiple) {
      std::array<std::uint64_t, batch_multiple> keys{};
      for (std::size_t i = 0; i < std::min(batch_multiple, pass.x.samples() - first); ++i)
        keys[i] = pass.context.random_key(first + i).value();
      kernels::dispatch(kernels::RandomMask<T>{.keys = keys.data(),
                                               .threshold = static_cast<std::uint64_t>(std::round(Rate.value * 0x1p32)),
                                               .scale = static_cast<T>(1 / (1 - Rate.value)),
                                               .features = In::size,
                                               .stride = pass.x.stride(),
                                               .to = pass.scratch.data() + first});
    }
    multiply(size, pass.x.data(), static_cast<const T*>(pass.scratch.data()), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const std::size_t size = In::size * pass.dy.stride();
    if (pass.context.training)
      multiply(size, static_cast<const T*>(pass.dy.data()), static_cast<const T*>(pass.scratch.data()), pass.dx.data());
    else
      std::copy_n(pass.dy.data(), size, pass.dx.data());
  }

 private:
  template <class T>
  static void multiply(std::size_t n, const T* a, const T* b, T* to) {
    kernels::sweep(
        n, [](const auto& x, const auto& factor, auto& y) LOCKSTEP_KERNEL_LAMBDA { y = x * factor; }, a, b, to);
  }
};

static_assert(Layer<Dropout<0.5>, Shape<26, 26, 32>>);
static_assert(Layer<Dropout<0.0>, Shape<10>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI
