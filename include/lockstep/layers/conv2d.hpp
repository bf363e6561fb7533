// Convolutions of images: whole, by channel, and both.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "lockstep/kernels/winograd.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// How a kernel slides over an image.
struct Sliding {
  Extent2D kernel;
  Extent2D stride;
  Padding padding = Padding::valid;
  Extent2D dilation;
};

/// Shape<1, 1, Filters> where the input is none that the layer takes: the message of check() says
/// enough.
template <class In, std::size_t Filters, Sliding S>
constexpr auto convolution_output() {
  if constexpr (In::rank == 3) {
    constexpr Extent2D window = dilated(S.kernel, S.dilation);
    if constexpr (S.padding == Padding::same ||
                  InputWithRoomFor<0, In, Shape<window.height, window.width>>)
      return Shape<window_outputs(In::extents[0], window.height, S.stride.height, S.padding),
                   window_outputs(In::extents[1], window.width, S.stride.width, S.padding),
                   Filters>{};
    else
      return Shape<1, 1, Filters>{};
  } else {
    return Shape<1, 1, Filters>{};
  }
}

/// From samples of shape In to samples of shape Out, in groups of channels and filters.
template <class In, class Out, Sliding S>
constexpr kernels::ConvolutionSize convolution_size(std::size_t groups, std::size_t batch) {
  constexpr Extent2D window = dilated(S.kernel, S.dilation);
  return {.height = In::extents[0],
          .width = In::extents[1],
          .channels = In::extents[2] / groups,
          .out_height = Out::extents[0],
          .out_width = Out::extents[1],
          .filters = Out::extents[2] / groups,
          .kernel_height = S.kernel.height,
          .kernel_width = S.kernel.width,
          .stride_height = S.stride.height,
          .stride_width = S.stride.width,
          .pad_top = window_padding(In::extents[0], window.height, S.stride.height, S.padding),
          .pad_left = window_padding(In::extents[1], window.width, S.stride.width, S.padding),
          .batch = batch,
          .dilation_height = S.dilation.height,
          .dilation_width = S.dilation.width,
          .groups = groups};
}

[[nodiscard]] constexpr Flop convolution_flop(const kernels::ConvolutionSize& s) {
  return product_flop(s.out_rows() * s.out_width * s.weights());
}

/// Filters in groups.
template <Sliding S, std::size_t Filters, std::size_t Groups>
struct GroupedConvolution {
  static_assert(S.padding != Padding::causal, "lockstep: causal padding is Conv1D's alone");

  template <class In>
  using Output = decltype(convolution_output<In, Filters, S>());

  template <class In>
  static constexpr kernels::ConvolutionSize size(std::size_t batch) {
    return convolution_size<In, Output<In>, S>(Groups, batch);
  }
};

/// So many filters for each channel.
template <Sliding S, std::size_t Multiplier>
struct DepthwiseConvolution {
  template <class In>
  using Output = decltype(convolution_output<In, In::extents[In::rank - 1] * Multiplier, S>());

  template <class In>
  static constexpr kernels::ConvolutionSize size(std::size_t batch) {
    return convolution_size<In, Output<In>, S>(In::extents[2], batch);
  }

  template <class In>
  static consteval Variable kernel(std::string_view name, Initializer initializer) {
    constexpr std::size_t channels = In::extents[2], taps = S.kernel.height * S.kernel.width;
    return {name,
            {S.kernel.height, S.kernel.width, channels, Multiplier},
            initializer,
            Fans{taps * channels, taps * Multiplier}};
  }
};

/// A layer of `Geometry` (GroupedConvolution, DepthwiseConvolution, VolumeConvolution) whose
/// variables are a kernel and perhaps a bias: y = Activation(x convolved with the kernel + bias).
template <class Geometry, class Activation, bool UseBias>
struct ConvolutionLayer : Geometry {
 private:
  /// The same for every batch.
  template <class In>
  static constexpr bool uses_winograd = kernels::uses_winograd(Geometry::template size<In>(16));

 public:
  static constexpr bool keeps_padding = true;

  template <class In, class T>
  static constexpr bool keeps_dy = is_identity<Activation>;
  template <class In, class T>
  static constexpr bool adds_to_dx = !Geometry::template size<In>(16).is_depthwise();

  template <class In>
  static constexpr Flop flop = convolution_flop(Geometry::template size<In>(1));

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return slope_size<Activation>(outputs(Geometry::template size<In>(stride)));
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    const kernels::ConvolutionSize size = Geometry::template size<In>(stride);
    if constexpr (uses_winograd<In>)
      return std::max(kernels::winograd_scratch(size), kernels::winograd_weights_scratch(size));
    else
      return kernels::convolution_scratch(size);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const kernels::ConvolutionSize size = Geometry::template size<In>(pass.x.stride());
    const T* const weights = pass.weights[0].data();
    const T* const constants = bias<UseBias>(pass.weights);
    constexpr T minimum = fused_minimum<Activation, T>();
    if constexpr (uses_winograd<In>)
      kernels::winograd_forward<T>(size, pass.x.data(), weights, constants, minimum, pass.y.data(),
                                   pass.temporary.data());
    else
      kernels::convolution_forward<T>(size, pass.x.data(), weights, constants, pass.y.data(),
                                      {minimum});
    if constexpr (!is_fused<Activation, T>)
      activate<Activation, T>(outputs(size), pass.y.data(), pass.y.data(), slope(pass));
  }

  template <class In, class T>
  static void forward_few(const FewSamplesPass<T>& pass)
    requires(!uses_winograd<In> && !Geometry::template size<In>(16).is_depthwise())
  {
    const kernels::ConvolutionSize size = Geometry::template size<In>(pass.samples);
    kernels::dispatch(kernels::ConvolutionOfFew<T>{size,
                                                   pass.x,
                                                   pass.weights[0].data(),
                                                   bias<UseBias>(pass.weights),
                                                   pass.y,
                                                   {fused_minimum<Activation, T>()}});
    if constexpr (!is_fused<Activation, T>)
      activate<Activation, T>(outputs(size), pass.y, pass.y, pass.scratch);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    const kernels::ConvolutionSize size = Geometry::template size<In>(pass.x.stride());
    weight_gradient<In>(size, pass, size.is_depthwise());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const kernels::ConvolutionSize size = Geometry::template size<In>(pass.x.stride());
    weight_gradient<In>(size, pass, true);
    pass.context.gradients_ready(pass.gradients);
    const T* const weights = pass.weights[0].data();
    if constexpr (uses_winograd<In>)
      kernels::winograd_input_gradient<T>(size, weights, pass.dy.data(), pass.dx.data(),
                                          pass.temporary.data(), pass.adds_to_dx);
    else
      kernels::convolution_input_gradient<T>(size, weights, pass.dy.data(), pass.dx.data(), nullptr,
                                             {}, pass.adds_to_dx);
  }

 private:
  static constexpr std::size_t outputs(const kernels::ConvolutionSize& size) {
    return size.out_rows() * size.out_width * size.all_filters() * size.batch;
  }

  /// Kept for backward, if the activation needs it.
  template <class Pass>
  static auto* slope(const Pass& pass) {
    return pass.scratch.data();
  }

  template <class In, class T>
  static void weight_gradient(const kernels::ConvolutionSize& size, const BackwardPass<T>& pass,
                              bool keep_delta) {
    const kernels::Delta<T> delta = activation_delta<Activation, T>(
        outputs(size), pass.dy.data(), pass.y.data(), slope(pass), keep_delta);
    T* const kernel = pass.gradients[0].data();
    T* const constants = bias<UseBias>(pass.gradients);
    T* const scratch = pass.temporary.data();
    if constexpr (uses_winograd<In>)
      kernels::winograd_weight_gradient<T>(size, pass.x.data(), delta, kernel, constants, scratch);
    else
      kernels::convolution_weight_gradient<T>(size, pass.x.data(), delta, kernel, constants,
                                              scratch);
  }
};

}  // namespace detail

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
/// Use: `Conv2D<32, 3, ReLU>`: Shape<28, 28, 1> -> Shape<26, 26, 32>; kernel (3, 3, 1, 32), bias
/// (32).
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear,
          Conv2DOptions Options = Conv2DOptions{}>
  requires the_activation_stands_before_the_options<Activation>
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
                  "no such image: put ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In>)
      static_assert(
          InputOfChannelGroups<Position, In, Options.groups>,
          "lockstep: the groups of Conv2D must divide the number of its input's channels");
    if constexpr (ImageInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<window.height, window.width>>,
                    "lockstep: Conv2D's kernel is larger than its input: make it smaller, or pad "
                    "the input with ls::Conv2DOptions{.padding = ls::Padding::same}");
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
/// Use: `DepthwiseConv2D<3>`: Shape<28, 28, 8> -> Shape<26, 26, 8>; kernel (3, 3, 8, 1), bias (8).
template <Extent2D Kernel, class Activation = Linear,
          DepthwiseConv2DOptions Options = DepthwiseConv2DOptions{}>
  requires the_activation_stands_before_the_options<Activation>
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
                  "input is no such image: put ls::Reshape<height, width, channels> before it");
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
/// Use: `SeparableConv2D<16, 3>`: Shape<28, 28, 8> -> Shape<26, 26, 16>; depthwise_kernel (3, 3, 8,
/// 1), pointwise_kernel (1, 1, 8, 16), bias (16).
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear,
          SeparableConv2DOptions Options = SeparableConv2DOptions{}>
  requires the_activation_stands_before_the_options<Activation>
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
                  "input is no such image: put ls::Reshape<height, width, channels> before it");
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

  template <class In>
  static constexpr Flop flop = [] {
    Flop both = detail::convolution_flop(Depthwise::template size<In>(1));
    const Flop second = detail::convolution_flop(Pointwise::template size<Between<In>>(1));
    both += second;
    both.backward_weights += second.backward - second.backward_weights;
    return both;
  }();

  /// What is between the two, or its gradient.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return Parts<In>(stride).slope + detail::slope_size<Activation>(Output<In>::size * stride);
  }
  /// The scratch of the kernels.
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

}}  // namespace lockstep
