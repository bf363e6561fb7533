// Convolutions of volumes.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of Conv3D; the defaults are Keras's.
struct Conv3DOptions {
  Extent3D stride = 1;
  Padding padding = Padding::valid;
  Extent3D dilation_rate = 1;  ///< the distance of a kernel's taps
  std::size_t groups = 1;      ///< each group of filters sees its group of channels only
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

namespace detail {

template <class In>
using PlaneOf = Shape<In::extents[1], In::extents[2], In::extents[3]>;

/// Filters in groups, as GroupedConvolution.
template <std::size_t Filters, Extent3D Kernel, Conv3DOptions Options>
struct VolumeConvolution {
  template <class In>
  using Output = decltype(volume_of_windows<In, dilated(Kernel, Options.dilation_rate),
                                            Options.stride, Options.padding, Filters>());

  template <class In>
  static constexpr kernels::ConvolutionSize size(std::size_t batch) {
    constexpr Sliding plane{Kernel.plane(), Options.stride.plane(), Options.padding,
                            Options.dilation_rate.plane()};
    kernels::ConvolutionSize size =
        convolution_size<PlaneOf<In>, PlaneOf<Output<In>>, plane>(Options.groups, batch);
    size.depth = In::extents[0];
    size.out_depth = Output<In>::extents[0];
    size.kernel_depth = Kernel.depth;
    size.stride_depth = Options.stride.depth;
    size.pad_front = window_padding(In::extents[0], dilated(Kernel, Options.dilation_rate).depth,
                                    Options.stride.depth, Options.padding);
    size.dilation_depth = Options.dilation_rate.depth;
    return size;
  }
};

}  // namespace detail

/// y = Activation(x convolved with Filters kernels + bias), for samples of shape Shape<depth,
/// height, width, channels> (of a video, the depth is time); as Conv2D. `Kernel` is an extent or
/// {depth, height, width}. Variables: kernel [depth x height x width x channels of a group x
/// filters] and bias [filters].
/// Use: `Conv3D<8, 3, ReLU>`: Shape<8, 16, 16, 1> -> Shape<6, 14, 14, 8>; kernel (3, 3, 3, 1, 8),
/// bias (8).
template <std::size_t Filters, Extent3D Kernel, class Activation = Linear,
          Conv3DOptions Options = Conv3DOptions{}>
  requires the_activation_stands_before_the_options<Activation>
struct Conv3D : detail::ConvolutionLayer<detail::VolumeConvolution<Filters, Kernel, Options>,
                                         Activation, Options.use_bias> {
  static_assert(Filters > 0, "lockstep: Conv3D needs at least one filter");
  static_assert(Kernel.size() > 0, "lockstep: the kernel of Conv3D must be at least 1 x 1 x 1");
  static_assert(Options.stride.size() > 0 && Options.dilation_rate.size() > 0,
                "lockstep: the stride and the dilation_rate of Conv3D must be at least 1");
  static_assert(Options.padding != Padding::causal, "lockstep: causal padding is Conv1D's alone");
  static_assert(Options.groups > 0 && Filters % Options.groups == 0,
                "lockstep: the groups of Conv3D must divide the number of its filters");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of Conv3D is no activation function; use ls::ReLU, "
                "ls::Linear, ...");

  static constexpr std::string_view name = "conv3d";
  static constexpr std::string_view class_name = "Conv3D";
  using AnnouncesGradients = Conv3D;
  using JoinsSums = Conv3D;
  using IgnoresOutput = std::conditional_t<detail::gradient_ignores_y<Activation>, Conv3D, void>;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(VolumeInput<Position, In>,
                  "lockstep: Conv3D needs an input of depth x height x width x channels, and its "
                  "input is no such volume: put ls::Reshape<depth, height, width, channels> before "
                  "it");
    if constexpr (VolumeInput<Position, In>)
      static_assert(
          InputOfChannelGroups<Position, In, Options.groups>,
          "lockstep: the groups of Conv3D must divide the number of its input's channels");
    if constexpr (VolumeInput<Position, In> && Options.padding == Padding::valid)
      static_assert(
          InputWithRoomFor<Position, In, Shape<window.depth, window.height, window.width>>,
          "lockstep: Conv3D's kernel is larger than its input: make it smaller, or pad the input "
          "with ls::Conv3DOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = Conv3D<Filters, Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = Conv3D<Filters, Kernel, Linear, Options>;

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      Variable{
          "kernel",
          {Kernel.depth, Kernel.height, Kernel.width, In::extents[3] / Options.groups, Filters},
          Options.kernel_initializer,
          Fans{Kernel.size() * In::extents[3] / Options.groups, Kernel.size() * Filters}}
          .with(Options.kernel_regularizer, Options.kernel_constraint),
      Variable{"bias", {Filters}, Options.bias_initializer, Fans{Filters, Filters}}.with(
          Options.bias_regularizer, Options.bias_constraint));

 private:
  static constexpr Extent3D window = dilated(Kernel, Options.dilation_rate);
};

}}  // namespace lockstep
