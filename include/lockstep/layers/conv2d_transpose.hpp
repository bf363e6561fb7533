// Conv2DTranspose: a convolution the other way round, which makes an image larger.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The rows and columns at the end of the output that Conv2DTranspose adds to those that its
/// windows cover, less than the stride: a number for both or {rows, columns}.
struct OutputPadding {
  bool is_given = false;  ///< otherwise the output is as large as the layer says
  std::size_t rows = 0;
  std::size_t columns = 0;

  constexpr OutputPadding() = default;
  template <std::integral I>
  constexpr OutputPadding(I both)
      : OutputPadding(static_cast<std::size_t>(both), static_cast<std::size_t>(both)) {}
  constexpr OutputPadding(std::size_t more_rows, std::size_t more_columns)
      : is_given(true), rows(more_rows), columns(more_columns) {}
};

/// Compile-time options of Conv2DTranspose; the defaults are Keras's.
struct Conv2DTransposeOptions {
  Extent2D stride = 1;
  Padding padding = Padding::valid;
  OutputPadding output_padding = {};
  Extent2D dilation_rate = 1;  ///< the distance of a kernel's taps
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

namespace detail {

/// Along one dimension. `more`: of OutputPadding.
[[nodiscard]] constexpr std::size_t transposed_extent(std::size_t in, std::size_t window,
                                                      std::size_t stride, Padding padding,
                                                      bool is_given, std::size_t more) noexcept {
  if (!is_given)
    return in * stride + (padding == Padding::valid && window > stride ? window - stride : 0);
  return (in - 1) * stride + window + more - (padding == Padding::same ? window / 2 * 2 : 0);
}

/// Height and width of the output.
template <class In>
constexpr Extent2D transposed_extents(Extent2D window, const Conv2DTransposeOptions& options) {
  const OutputPadding& more = options.output_padding;
  return {transposed_extent(In::extents[0], window.height, options.stride.height, options.padding,
                            more.is_given, more.rows),
          transposed_extent(In::extents[1], window.width, options.stride.width, options.padding,
                            more.is_given, more.columns)};
}

template <class In, std::size_t Filters, Extent2D Window, Conv2DTransposeOptions Options>
constexpr auto transposed_output() {
  if constexpr (In::rank == 3) {
    constexpr Extent2D extents = transposed_extents<In>(Window, Options);
    return Shape<extents.height, extents.width, Filters>{};
  } else {
    return Shape<1, 1, Filters>{};  // (the message of check() says enough)
  }
}

/// A Conv2D of the output makes the input's extents of it.
template <std::size_t Position, class In, Extent2D Window, Conv2DTransposeOptions Options>
concept FittingOutputPadding =
    !Options.output_padding.is_given ||
    (Options.output_padding.rows < Options.stride.height &&
     Options.output_padding.columns < Options.stride.width &&
     window_outputs(transposed_extents<In>(Window, Options).height, Window.height,
                    Options.stride.height, Options.padding) == In::extents[0] &&
     window_outputs(transposed_extents<In>(Window, Options).width, Window.width,
                    Options.stride.width, Options.padding) == In::extents[1]);

}  // namespace detail

/// y = Activation(g + bias), where g is the gradient of the input of a Conv2D of the same stride
/// and padding whose output's gradient is x. For samples of shape Shape<height, width, channels>;
/// the output has extent * stride rows and columns, and with Padding::valid kernel - stride more,
/// if the kernel is larger. With output_padding it has (extent - 1) * stride + kernel of them, less
/// twice half of the kernel with Padding::same, and those of output_padding. Variables: kernel
/// [height x width x filters x channels] and bias [filters].
/// Use: `Conv2DTranspose<8, 3, ReLU, Conv2DTransposeOptions{.stride = 2, .padding =
/// Padding::same}>`: Shape<7, 7, 16> -> Shape<14, 14, 8>; kernel (3, 3, 8, 16), bias (8).
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear,
          Conv2DTransposeOptions Options = Conv2DTransposeOptions{}>
  requires the_activation_stands_before_the_options<Activation>
struct Conv2DTranspose {
  static_assert(Filters > 0, "lockstep: Conv2DTranspose needs at least one filter");
  static_assert(Kernel.height > 0 && Kernel.width > 0,
                "lockstep: the kernel of Conv2DTranspose must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0,
                "lockstep: the stride of Conv2DTranspose must be at least 1");
  static_assert(Options.dilation_rate.height > 0 && Options.dilation_rate.width > 0,
                "lockstep: the dilation_rate of Conv2DTranspose must be at least 1");
  static_assert(Options.padding != Padding::causal,
                "lockstep: Conv2DTranspose has no causal padding: it is Conv1D's alone");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of Conv2DTranspose is no activation function; use "
                "ls::ReLU, ...");

  static constexpr std::string_view name = "conv2d_transpose";
  static constexpr std::string_view class_name = "Conv2DTranspose";
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = Conv2DTranspose;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: Conv2DTranspose needs an input of height x width x channels, and its "
                  "input is no such image: put ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In>)
      static_assert(detail::FittingOutputPadding<Position, In, window, Options>,
                    "lockstep: the output_padding of Conv2DTranspose must be below its stride, and "
                    "with Padding::same the kernel odd or the output_padding above 0: leave it out "
                    "for an output of extent * stride");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = Conv2DTranspose<Filters, Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = Conv2DTranspose<Filters, Kernel, Linear, Options>;

  template <class In>
  using Output =
      decltype(detail::transposed_output<In, Filters, dilated(Kernel, Options.dilation_rate),
                                         Options>());

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      Variable{
          "kernel",
          {Kernel.height, Kernel.width, Filters, In::extents[2]},
          Options.kernel_initializer,
          Fans{Kernel.height * Kernel.width * Filters, Kernel.height* Kernel.width* In::extents[2]}}
          .with(Options.kernel_regularizer, Options.kernel_constraint),
      Variable{"bias", {Filters}, Options.bias_initializer, Fans{Filters, Filters}}.with(
          Options.bias_regularizer, Options.bias_constraint));

  /// (The kernel is applied to each place of the input.)
  template <class In>
  static constexpr Flop flop = product_flop(In::size * Kernel.height * Kernel.width * Filters);

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::slope_size<Activation>(Output<In>::size * stride);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    return kernels::convolution_scratch(size<In>(stride));
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::convolution_input_gradient<T>(
        size<In>(pass.x.stride()), pass.weights[0].data(), pass.x.data(), pass.y.data(),
        detail::bias<Options.use_bias>(pass.weights), {detail::fused_minimum<Activation, T>()});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Output<In>::size * pass.y.stride(), pass.y.data(),
                                      pass.y.data(), slope(pass));
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    if constexpr (!detail::is_identity<Activation>)
      detail::activation_gradient<Activation, T>(Output<In>::size * pass.y.stride(), pass.dy.data(),
                                                 pass.y.data(), slope(pass), pass.dy.data());
    kernels::convolution_weight_gradient<T>(
        size<In>(pass.x.stride()), pass.dy.data(), {.dy = pass.x.data(), .y = pass.x.data()},
        pass.gradients[0].data(), nullptr, pass.temporary.data());
    if constexpr (Options.use_bias) {
      std::array<double, Filters> sums;
      kernels::dispatch(kernels::ChannelTotals<T>{detail::channel_size<Output<In>>(pass.dy),
                                                  pass.dy.data(), sums.data()});
      for (std::size_t f = 0; f < Filters; ++f) pass.gradients[1][f] = static_cast<T>(sums[f]);
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    pass.context.gradients_ready(pass.gradients);
    kernels::convolution_forward<T>(size<In>(pass.x.stride()), pass.dy.data(),
                                    pass.weights[0].data(), nullptr, pass.dx.data(), {});
  }

 private:
  static constexpr Extent2D window = dilated(Kernel, Options.dilation_rate);

  /// Kept for backward, if the activation needs it.
  template <class Pass>
  static auto* slope(const Pass& pass) {
    return pass.scratch.data();
  }

  /// The size of the convolution whose input is y.
  template <class In>
  static constexpr kernels::ConvolutionSize size(std::size_t batch) {
    return detail::convolution_size<Output<In>, In,
                                    detail::Sliding{Kernel, Options.stride, Options.padding,
                                                    Options.dilation_rate}>(1, batch);
  }
};

}}  // namespace lockstep
