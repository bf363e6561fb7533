// DepthwiseConv2D: each channel of an image is convolved by itself.
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

/// Compile-time options of DepthwiseConv2D; the defaults are Keras's.
struct DepthwiseConv2DOptions {
  Extent2D stride = 1;
  Padding padding = Padding::valid;
  std::size_t depth_multiplier = 1;  ///< filters of each channel
  Extent2D dilation_rate = 1;        ///< the distance of a kernel's taps
  bool use_bias = true;
  InitializerOption depthwise_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer depthwise_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint depthwise_constraint = {};
  Constraint bias_constraint = {};
};

/// y = Activation(x convolved channel by channel + bias), for samples of shape Shape<height, width,
/// channels>: channel c * depth_multiplier + j of the output is channel c of the input convolved
/// with its kernel j. `Kernel` is an extent or {height, width}. Variables: kernel [height x width x
/// channels x depth_multiplier] and bias [channels * depth_multiplier].
template <Extent2D Kernel, class Activation = Linear,
          DepthwiseConv2DOptions Options = DepthwiseConv2DOptions{}>
struct DepthwiseConv2D
    : detail::ConvolutionLayer<
          detail::DepthwiseConvolution<detail::Sliding{Kernel, Options.stride, Options.padding,
                                                       Options.dilation_rate},
                                       Options.depth_multiplier>,
          Activation, Options.use_bias> {
  static_assert(Kernel.height > 0 && Kernel.width > 0,
                "lockstep: the kernel of DepthwiseConv2D must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0,
                "lockstep: the stride of DepthwiseConv2D must be at least 1");
  static_assert(Options.depth_multiplier > 0,
                "lockstep: the depth_multiplier of DepthwiseConv2D must be at least 1");
  static_assert(Options.dilation_rate.height > 0 && Options.dilation_rate.width > 0,
                "lockstep: the dilation_rate of DepthwiseConv2D must be at least 1");
  static_assert(Options.padding != Padding::causal,
                "lockstep: DepthwiseConv2D has no causal padding: it is Conv1D's alone");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the second parameter of DepthwiseConv2D is no activation function; use "
                "ls::ReLU, ...");

  static constexpr std::string_view name = "depthwise_conv2d";
  static constexpr std::string_view class_name = "DepthwiseConv2D";
  using AnnouncesGradients = DepthwiseConv2D;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: DepthwiseConv2D needs an input of height x width x channels, and its "
                  "input is no such "
                  "image: put ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<window.height, window.width>>,
                    "lockstep: DepthwiseConv2D's kernel is larger than its input: make it smaller, "
                    "or pad the input "
                    "with ls::DepthwiseConv2DOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = DepthwiseConv2D<Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = DepthwiseConv2D<Kernel, Linear, Options>;

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      DepthwiseConv2D::template kernel<In>("kernel", Options.depthwise_initializer)
          .with(Options.depthwise_regularizer, Options.depthwise_constraint),
      Variable{"bias",
               {In::extents[2] * Options.depth_multiplier},
               Options.bias_initializer,
               Fans{In::extents[2] * Options.depth_multiplier,
                    In::extents[2] * Options.depth_multiplier}}
          .with(Options.bias_regularizer, Options.bias_constraint));

 private:
  static constexpr Extent2D window = dilated(Kernel, Options.dilation_rate);
};

}  // namespace lockstep::inline LOCKSTEP_ABI
