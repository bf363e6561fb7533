// GaussianDropout: multiplies values with normally distributed numbers in training.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/random_factors.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

template <Probability Rate>
struct GaussianFactors {
  template <class T>
  static void draw(const StepContext& context, std::size_t samples, std::size_t features,
                   std::size_t stride, T* to) {
    draw_normal(context, samples, 1, std::sqrt(Rate.value / (1 - Rate.value)), features, stride,
                to);
  }
};

}  // namespace detail

/// In training each value is multiplied with a number of mean 1 and standard deviation sqrt(Rate /
/// (1 - Rate)), those of Dropout's factors; in inference it is left alone. For samples of any
/// shape: `GaussianDropout<0.2>`. Random numbers as in GaussianNoise.
template <Probability Rate>
struct GaussianDropout : detail::RandomFactorLayer<detail::GaussianFactors<Rate>> {
  static_assert(
      Rate.value >= 0 && Rate.value < 1,
      "lockstep: the rate of GaussianDropout is at least 0 and below 1 (at 1 the deviation "
      "of its factors has no value, and Keras's fit fails)");

  static constexpr std::string_view name = "gaussian_dropout";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
