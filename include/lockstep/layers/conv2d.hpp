// Conv2D: a small window slides over an image.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/convolution.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of Conv2D; the defaults are Keras's. `Conv2D<32, 3, ReLU,
/// Conv2DOptions{.stride = 2, .padding = Padding::same}>`; g++, and clang++ from version 18 on,
/// also take `{.stride = 2}` without the name of the type.
struct Conv2DOptions {
  Extent2D stride = 1;
  Padding padding = Padding::valid;
  Extent2D dilation_rate = 1;  ///< the distance of a kernel's taps
  std::size_t groups = 1;      ///< each group of filters sees its group of channels only
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

/// y = Activation(x convolved with Filters kernels + bias), for samples of shape Shape<height,
/// width, channels>; as usual with neural networks it is a cross-correlation. `Kernel` is an extent
/// or {height, width}. Variables: kernel [height x width x channels of a group x filters] and bias
/// [filters].
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear,
          Conv2DOptions Options = Conv2DOptions{}>
struct Conv2D
    : detail::ConvolutionLayer<
          detail::GroupedConvolution<detail::Sliding{Kernel, Options.stride, Options.padding,
                                                     Options.dilation_rate},
                                     Filters, Options.groups>,
          Activation, Options.use_bias> {
  static_assert(Filters > 0, "lockstep: Conv2D needs at least one filter");
  static_assert(Kernel.height > 0 && Kernel.width > 0,
                "lockstep: the kernel of Conv2D must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0,
                "lockstep: the stride of Conv2D must be at least 1");
  static_assert(Options.dilation_rate.height > 0 && Options.dilation_rate.width > 0,
                "lockstep: the dilation_rate of Conv2D must be at least 1");
  static_assert(Options.groups > 0 && Filters % Options.groups == 0,
                "lockstep: the groups of Conv2D must divide the number of its filters");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of Conv2D is no activation function; use ls::ReLU, "
                "ls::Linear, ...");

  static constexpr std::string_view name = "conv2d";
  static constexpr std::string_view class_name = "Conv2D";
  using AnnouncesGradients = Conv2D;
  using JoinsSums = Conv2D;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: Conv2D needs an input of height x width x channels, and its input is "
                  "no such image: put "
                  "ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In>)
      static_assert(
          InputOfChannelGroups<Position, In, Options.groups>,
          "lockstep: the groups of Conv2D must divide the number of its input's channels");
    if constexpr (ImageInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<window.height, window.width>>,
                    "lockstep: Conv2D's kernel is larger than its input: make it smaller, or pad "
                    "the input with "
                    "ls::Conv2DOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = Conv2D<Filters, Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = Conv2D<Filters, Kernel, Linear, Options>;

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      Variable{"kernel",
               {Kernel.height, Kernel.width, In::extents[2] / Options.groups, Filters},
               Options.kernel_initializer,
               Fans{Kernel.height * Kernel.width * In::extents[2] / Options.groups,
                    Kernel.height* Kernel.width* Filters}}
          .with(Options.kernel_regularizer, Options.kernel_constraint),
      Variable{"bias", {Filters}, Options.bias_initializer, Fans{Filters, Filters}}.with(
          Options.bias_regularizer, Options.bias_constraint));

 private:
  static constexpr Extent2D window = dilated(Kernel, Options.dilation_rate);
};

}  // namespace lockstep::inline LOCKSTEP_ABI
