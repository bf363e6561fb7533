// Dropout: sets a random part of the values to zero in training.
#pragma once

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
struct DropoutMask {
  template <class T>
  static void draw(const StepContext& context, std::size_t samples, std::size_t features,
                   std::size_t stride, T* to) {
    draw_mask(context, samples, Rate.value, features, stride, to);
  }
};

}  // namespace detail

/// In training each value is zero with probability Rate and is divided by 1 - Rate otherwise, so
/// that its mean stays; with Rate 1 all are zero, as in Keras. In inference it is left alone. For
/// samples of any shape: `Dropout<0.5>`.
/// Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15,
/// 2014.
///
/// Value f of a sample is kept where number f of RandomStream(context.random_key(sample)) is at
/// least Rate * 2^32. So what is dropped depends on the seed, the step, the layer and the sample's
/// index in the dataset, and neither on the number of replicas nor on the instruction set.
template <Probability Rate>
struct Dropout : detail::RandomFactorLayer<detail::DropoutMask<Rate>> {
  static_assert(Rate.value >= 0 && Rate.value <= 1,
                "lockstep: the rate of Dropout is the part of values that is dropped: from 0 to 1");

  static constexpr std::string_view name = "dropout";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
