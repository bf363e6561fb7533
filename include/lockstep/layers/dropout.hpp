// Random factors in training, and noise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/sequences.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/number.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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
/// Use: `Dropout<0.5>`: Shape<10> -> Shape<10>.
template <Probability Rate>
struct Dropout : detail::RandomFactorLayer<detail::DropoutMask<Rate>> {
  static_assert(Rate.value >= 0 && Rate.value <= 1,
                "lockstep: the rate of Dropout is the part of values that is dropped: from 0 to 1");

  static constexpr std::string_view name = "dropout";
};

/// As Dropout, but for each feature of a Sequence<T, features> as a whole: neighbouring positions
/// know too much of one another. Tompson et al., "Efficient object localization using convolutional
/// networks", CVPR 2015.
/// Use: `SpatialDropout1D<0.2>`: Sequence<10, 4> -> Sequence<10, 4>.
template <Probability Rate>
struct SpatialDropout1D {
  static_assert(Rate.value >= 0 && Rate.value <= 1,
                "lockstep: the rate of SpatialDropout1D is the part of features that is dropped: "
                "from 0 to 1");

  static constexpr std::string_view name = "spatial_dropout1d";
  static constexpr std::string_view class_name = "SpatialDropout1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = In;

  /// The factor of each feature.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return TokenOf<In>::size * padded_batch(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t samples = pass.x.samples() / positions_of<In>;
    if (pass.context.training)
      detail::draw_mask<T>(pass.context, samples, Rate.value, TokenOf<In>::size,
                           padded_batch(samples), pass.scratch.data());
    scale<In, T>(pass.context.training, pass.x, pass.scratch.data(), pass.y);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    scale<In, T>(pass.context.training, pass.dy, pass.scratch.data(), pass.dx);
  }

 private:
  template <class In, class T>
  static void scale(bool training, const TensorView<const T>& from, const T* factors,
                    const TensorView<T>& to) {
    const std::size_t samples = from.samples() / positions_of<In>;
    if (!training)
      std::copy_n(from.data(), TokenOf<In>::size * from.stride(), to.data());
    else
      kernels::dispatch(kernels::ScaleSequences<T>{.features = TokenOf<In>::size,
                                                   .samples = samples,
                                                   .steps = positions_of<In>,
                                                   .stride = from.stride(),
                                                   .batch = padded_batch(samples),
                                                   .x = from.data(),
                                                   .factors = factors,
                                                   .y = to.data()});
  }
};

/// Dropout of whole channels: in training each channel of a sample of shape Shape<height, width,
/// channels> is zero in all pixels with probability Rate and divided by 1 - Rate otherwise; in
/// inference it is left alone. Tompson et al., "Efficient object localization using convolutional
/// networks", CVPR 2015. Random numbers as in Dropout, one for each channel.
/// Use: `SpatialDropout2D<0.2>`: Shape<28, 28, 8> -> Shape<28, 28, 8>.
template <Probability Rate>
struct SpatialDropout2D {
  static_assert(Rate.value >= 0 && Rate.value <= 1,
                "lockstep: the rate of SpatialDropout2D is the part of channels that is dropped: "
                "from 0 to 1");

  static constexpr std::string_view name = "spatial_dropout2d";
  static constexpr std::string_view class_name = "SpatialDropout2D";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: SpatialDropout2D needs an input of height x width x channels, and its "
                  "input is no such "
                  "image: use ls::Dropout, or put ls::Reshape<height, width, channels> before it");
    return true;
  }

  template <class In>
  using Output = In;

  /// The factor of each channel.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::channels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if (pass.context.training)
      detail::draw_mask(pass.context, pass.x.samples(), Rate.value, detail::channels<In>,
                        pass.x.stride(), pass.scratch.data());
    apply<In, T>(pass, pass.x.data(), pass.x.stride(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    apply<In, T>(pass, pass.dy.data(), pass.dy.stride(), pass.dx.data());
  }

 private:
  template <class In, class T, class Pass>
  static void apply(const Pass& pass, const T* from, std::size_t stride, T* to) {
    const std::size_t pixel = detail::channels<In> * stride;
    for (std::size_t first = 0; first < In::size * stride; first += pixel)
      if (pass.context.training)
        detail::multiply_values<T>(pixel, from + first, pass.scratch.data(), to + first);
      else
        std::copy_n(from + first, pixel, to + first);
  }
};

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
/// Use: `GaussianDropout<0.2>`: Shape<10> -> Shape<10>.
template <Probability Rate>
struct GaussianDropout : detail::RandomFactorLayer<detail::GaussianFactors<Rate>> {
  static_assert(
      Rate.value >= 0 && Rate.value < 1,
      "lockstep: the rate of GaussianDropout is at least 0 and below 1 (at 1 the deviation "
      "of its factors has no value, and Keras's fit fails)");

  static constexpr std::string_view name = "gaussian_dropout";
};

/// In training a number of mean 0 and standard deviation Stddev is added to each value; in
/// inference it is left alone. For samples of any shape: `GaussianNoise<0.1>`.
///
/// The numbers are those of RandomNormal (kernels/random_normal.hpp) with
/// context.random_key(sample). So they depend on the seed, the step, the layer and the sample's
/// index in the dataset, and not on the number of replicas.
/// Use: `GaussianNoise<0.1>`: Shape<10> -> Shape<10>.
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

}}  // namespace lockstep
