// SeparableConv2D: each channel is convolved by itself, then the channels of each pixel are mixed.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/convolution.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of SeparableConv2D; the defaults are Keras's.
struct SeparableConv2DOptions {
  Extent2D stride = 1;
  Padding padding = Padding::valid;
  Extent2D dilation_rate = 1;        ///< the distance of a kernel's taps
  std::size_t depth_multiplier = 1;  ///< filters of each channel
  bool use_bias = true;
  InitializerOption depthwise_initializer = glorot_uniform;
  InitializerOption pointwise_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer depthwise_regularizer = {};
  Regularizer pointwise_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint depthwise_constraint = {};
  Constraint pointwise_constraint = {};
  Constraint bias_constraint = {};
};

/// y = Activation(DepthwiseConv2D(x) convolved with Filters kernels of 1 x 1 + bias), for samples
/// of shape Shape<height, width, channels>. `Kernel` is an extent or {height, width}. Variables:
/// depthwise_kernel [height x width x channels x depth_multiplier], pointwise_kernel [1 x 1 x
/// channels * depth_multiplier x filters] and bias [filters].
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear,
          SeparableConv2DOptions Options = SeparableConv2DOptions{}>
struct SeparableConv2D {
  static_assert(Filters > 0, "lockstep: SeparableConv2D needs at least one filter");
  static_assert(Kernel.height > 0 && Kernel.width > 0,
                "lockstep: the kernel of SeparableConv2D must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0,
                "lockstep: the stride of SeparableConv2D must be at least 1");
  static_assert(Options.depth_multiplier > 0,
                "lockstep: the depth_multiplier of SeparableConv2D must be at least 1");
  static_assert(Options.dilation_rate.height > 0 && Options.dilation_rate.width > 0,
                "lockstep: the dilation_rate of SeparableConv2D must be at least 1");
  static_assert(Options.padding != Padding::causal,
                "lockstep: SeparableConv2D has no causal padding: it is Conv1D's alone");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of SeparableConv2D is no activation function; use "
                "ls::ReLU, ...");

  static constexpr std::string_view name = "separable_conv2d";
  static constexpr std::string_view class_name = "SeparableConv2D";
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = SeparableConv2D;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: SeparableConv2D needs an input of height x width x channels, and its "
                  "input is no such "
                  "image: put ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<window.height, window.width>>,
                    "lockstep: SeparableConv2D's kernel is larger than its input: make it smaller, "
                    "or pad the input "
                    "with ls::SeparableConv2DOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = SeparableConv2D<Filters, Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = SeparableConv2D<Filters, Kernel, Linear, Options>;

 private:
  static constexpr detail::Sliding sliding{Kernel, Options.stride, Options.padding,
                                           Options.dilation_rate};
  static constexpr Extent2D window = dilated(Kernel, Options.dilation_rate);
  using Depthwise = detail::DepthwiseConvolution<sliding, Options.depth_multiplier>;
  using Pointwise =
      detail::GroupedConvolution<detail::Sliding{.kernel = 1, .stride = 1, .dilation = 1}, Filters,
                                 1>;
  template <class In>
  using Between = typename Depthwise::template Output<In>;

  template <class In>
  static consteval auto all_variables() {
    constexpr std::size_t channels = Between<In>::extents[2];
    const Variable depthwise =
        Depthwise::template kernel<In>("depthwise_kernel", Options.depthwise_initializer)
            .with(Options.depthwise_regularizer, Options.depthwise_constraint);
    const Variable pointwise = Variable{
        "pointwise_kernel",
        {1, 1, channels, Filters},
        Options.pointwise_initializer,
        Fans{channels, Filters}}.with(Options.pointwise_regularizer, Options.pointwise_constraint);
    const Variable bias =
        Variable{"bias", {Filters}, Options.bias_initializer, Fans{Filters, Filters}}.with(
            Options.bias_regularizer, Options.bias_constraint);
    if constexpr (Options.use_bias)
      return std::array{depthwise, pointwise, bias};
    else
      return std::array{depthwise, pointwise};
  }

 public:
  template <class In>
  using Output = typename Pointwise::template Output<Between<In>>;

  template <class In>
  static constexpr auto variables = all_variables<In>();

  /// What is between the two, or its gradient.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return Parts<In>(stride).slope + detail::slope_size<Activation>(Output<In>::size * stride);
  }
  /// That of the kernels.
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    const Parts<In> parts(stride);
    return std::max(kernels::convolution_scratch(parts.depthwise),
                    kernels::convolution_scratch(parts.pointwise));
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const Parts<In> parts(pass.x.stride());
    T* const between = pass.scratch.data();
    T* bias = nullptr;
    if constexpr (Options.use_bias) bias = pass.weights[2].data();
    kernels::convolution_forward<T>(parts.depthwise, pass.x.data(), pass.weights[0].data(), nullptr,
                                    between, {});
    kernels::convolution_forward<T>(parts.pointwise, between, pass.weights[1].data(), bias,
                                    pass.y.data(), {detail::fused_minimum<Activation, T>()});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Output<In>::size * pass.y.stride(), pass.y.data(),
                                      pass.y.data(), pass.scratch.data() + parts.slope);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    const Parts<In> parts(pass.x.stride());
    T* const between = pass.scratch.data();
    T* const scratch = pass.temporary.data();
    T* bias = nullptr;
    if constexpr (Options.use_bias) bias = pass.gradients[2].data();
    const kernels::Delta<T> delta = detail::activation_delta<Activation, T>(
        Output<In>::size * pass.y.stride(), pass.dy.data(), pass.y.data(),
        pass.scratch.data() + parts.slope, true);
    kernels::convolution_weight_gradient<T>(parts.pointwise, between, delta,
                                            pass.gradients[1].data(), bias, scratch);
    kernels::convolution_input_gradient<T>(parts.pointwise, pass.weights[1].data(), pass.dy.data(),
                                           between, nullptr, {});
    kernels::convolution_weight_gradient<T>(parts.depthwise, pass.x.data(),
                                            {.dy = between, .y = between}, pass.gradients[0].data(),
                                            nullptr, scratch);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    pass.context.gradients_ready(pass.gradients);
    kernels::convolution_input_gradient<T>(Parts<In>(pass.x.stride()).depthwise,
                                           pass.weights[0].data(), pass.scratch.data(),
                                           pass.dx.data(), nullptr, {});
  }

 private:
  /// The two convolutions, and where things begin in scratch.
  template <class In>
  struct Parts {
    kernels::ConvolutionSize depthwise, pointwise;
    std::size_t slope;  ///< where it begins, behind what is between the two

    constexpr explicit Parts(std::size_t stride)
        : depthwise(Depthwise::template size<In>(stride)),
          pointwise(Pointwise::template size<Between<In>>(stride)),
          slope(Between<In>::size * stride) {}
  };
};

}  // namespace lockstep::inline LOCKSTEP_ABI
