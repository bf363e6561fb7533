// GaussianNoise: adds normally distributed numbers in training.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/number.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// In training a number of mean 0 and standard deviation Stddev is added to each value; in
/// inference it is left alone. For samples of any shape: `GaussianNoise<0.1>`.
///
/// The numbers are those of RandomNormal (kernels/random_normal.hpp) with
/// context.random_key(sample). So they depend on the seed, the step, the layer and the sample's
/// index in the dataset, and not on the number of replicas.
template <Number Stddev>
struct GaussianNoise {
  static_assert(Stddev.value >= 0,
                "lockstep: the standard deviation of GaussianNoise must not be negative");

  static constexpr std::string_view name = "gaussian_noise";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t size = In::size * pass.x.stride();
    if (!pass.context.training) {
      std::copy_n(pass.x.data(), size, pass.y.data());
      return;
    }
    detail::draw_normal(pass.context, pass.x.samples(), 0, Stddev.value, In::size, pass.x.stride(),
                        pass.y.data());
    kernels::sweep(
        size, [](const auto& x, auto& y) LOCKSTEP_KERNEL_LAMBDA { y += x; }, pass.x.data(),
        pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if (pass.dx.data() != pass.dy.data())
      std::copy_n(pass.dy.data(), In::size * pass.dy.stride(), pass.dx.data());
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
