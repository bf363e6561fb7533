// Conv2D: a small window slides over an image.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of Conv2D; the defaults are Keras's. `Conv2D<32, 3, ReLU,
/// Conv2DOptions{.stride = 2, .padding = Padding::same}>`; g++, and clang++ from version 18 on,
/// also take `{.stride = 2}` without the name of the type.
struct Conv2DOptions {
  Extent2D stride = 1;
  Padding padding = Padding::valid;
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
};

namespace detail {

/// Shape<1, 1, Filters> where the input is none that Conv2D takes: the message of check() says
/// enough.
template <class In, std::size_t Filters, Extent2D Kernel, Conv2DOptions Options>
constexpr auto conv2d_output() {
  if constexpr (In::rank == 3) {
    constexpr bool fits =
        Options.padding == Padding::same || InputWithRoomFor<0, In, Shape<Kernel.height, Kernel.width>>;
    if constexpr (fits)
      return Shape<window_outputs(In::extents[0], Kernel.height, Options.stride.height, Options.padding),
                   window_outputs(In::extents[1], Kernel.width, Options.stride.width, Options.padding), Filters>{};
    else
      return Shape<1, 1, Filters>{};
  } else {
    return Shape<1, 1, Filters>{};
  }
}

}  // namespace detail

/// y = Activation(x convolved with Filters kernels + bias), for samples of shape Shape<height,
/// width, channels>; as usual with neural networks it is a cross-correlation. `Kernel` is an extent
/// or {height, width}. Variables: kernel [height x width x channels x filters] and bias [filters].
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear, Conv2DOptions Options = Conv2DOptions{}>
struct Conv2D {
  static_assert(Filters > 0, "lockstep: Conv2D needs at least one filter");
  static_assert(Kernel.height > 0 && Kernel.width > 0, "lockstep: the kernel of Conv2D must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0,
                "lockstep: the stride of Conv2D must be at least 1");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of Conv2D is no activation function; use ls::ReLU, ls::Linear, ...");

  static constexpr std::string_view name = "conv2d";
  static constexpr std::string_view class_name = "Conv2D";
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = Conv2D;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(ImageInput<Position, In>,
                  "lockstep: Conv2D needs an input of height x width x channels, and its input is no such image: put "
                  "ls::Reshape<height, width, channels> before it");
    if constexpr (ImageInput<Position, In> && Options.padding == Padding::valid)
      static_assert(InputWithRoomFor<Position, In, Shape<Kernel.height, Kernel.width>>,
                    "lockstep: Conv2D's kernel is larger than its input: make it smaller, or pad the input with "
                    "ls::Conv2DOptions{.padding = ls::Padding::same}");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = Conv2D<Filters, Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = Conv2D<Filters, Kernel, Linear, Options>;

  template <class In>
  using Output = decltype(detail::conv2d_output<In, Filters, Kernel, Options>());

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      Variable{"kernel",
               {Kernel.height, Kernel.width, In::extents[2], Filters},
               Options.kernel_initializer,
               Fans{Kernel.height * Kernel.width * In::extents[2], Kernel.height* Kernel.width* Filters}},
      Variable{"bias", {Filters}, Options.bias_initializer, Fans{Filters, Filters}});

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return kernels::convolution_scratch(size<In>(stride)) + detail::slope_size<Activation>(Output<In>::size * stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::convolution_forward<T>(size<In>(pass.x.stride()), pass.x.data(), pass.weights[0].data(),
                                    detail::bias<Options.use_bias>(pass.weights), pass.y.data(),
                                    {detail::fused_minimum<Activation, T>()});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Output<In>::size * pass.y.stride(), pass.y.data(), pass.y.data(),
                                      slope<In>(pass));
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    weight_gradient<In, T>(pass, false);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    weight_gradient<In, T>(pass, true);
    pass.context.gradients_ready(pass.gradients);
    kernels::convolution_input_gradient<T>(size<In>(pass.x.stride()), pass.weights[0].data(), pass.dy.data(),
                                           pass.dx.data());
  }

 private:
  /// Kept for backward, if the activation needs it.
  template <class In, class Pass>
  static auto* slope(const Pass& pass) {
    return pass.scratch.data() + kernels::convolution_scratch(size<In>(pass.y.stride()));
  }

  template <class In>
  static constexpr kernels::ConvolutionSize size(std::size_t batch) {
    using Out = Output<In>;
    return {.height = In::extents[0],
            .width = In::extents[1],
            .channels = In::extents[2],
            .out_height = Out::extents[0],
            .out_width = Out::extents[1],
            .filters = Filters,
            .kernel_height = Kernel.height,
            .kernel_width = Kernel.width,
            .stride_height = Options.stride.height,
            .stride_width = Options.stride.width,
            .pad_top = window_padding(In::extents[0], Kernel.height, Options.stride.height, Options.padding),
            .pad_left = window_padding(In::extents[1], Kernel.width, Options.stride.width, Options.padding),
            .batch = batch};
  }

  template <class In, class T>
  static void weight_gradient(const BackwardPass<T>& pass, bool keep_delta) {
    const std::size_t outputs = Output<In>::size * pass.y.stride();
    kernels::convolution_weight_gradient<T>(
        size<In>(pass.x.stride()), pass.x.data(),
        detail::activation_delta<Activation, T>(outputs, pass.dy.data(), pass.y.data(), slope<In>(pass), keep_delta),
        pass.gradients[0].data(), detail::bias<Options.use_bias>(pass.gradients), pass.scratch.data());
  }
};

static_assert(Layer<Conv2D<32, 3, ReLU>, Shape<28, 28, 1>>);
static_assert(Layer<Conv2D<8, Extent2D{1, 5}, Tanh, Conv2DOptions{.stride = {2, 1}, .padding = Padding::same}>,
                    Shape<7, 4, 3>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI
