// Conv2D: a small window slides over an image.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of Conv2D. `Conv2D<32, 3, ReLU, Conv2DOptions{.stride = 2, .padding = Padding::same}>`; g++, and
/// clang++ from version 18 on, also take `{.stride = 2}` without the name of the type.
struct Conv2DOptions {
  Extent2D stride = 1;
  Padding padding = Padding::valid;
};

namespace detail {

/// (A function, and not a class, so that the failed assertion is the only error.)
template <class In, std::size_t Filters, Extent2D Kernel, Conv2DOptions Options>
constexpr auto conv2d_output() {
  static_assert(
      In::rank == 3,
      "lockstep: Conv2D takes images of height, width and channels; put ls::Reshape<H, W, C> before it (C = 1 for "
      "grey images)");
  if constexpr (In::rank == 3) {
    constexpr bool fits =
        Options.padding == Padding::same || (Kernel.height <= In::extents[0] && Kernel.width <= In::extents[1]);
    static_assert(fits,
                  "lockstep: the kernel of Conv2D is larger than its input; make the kernel smaller, or use "
                  "ls::Conv2DOptions{.padding = ls::Padding::same}");
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

/// y = Activation(x convolved with Filters kernels + bias), for samples of shape Shape<height, width, channels>; as usual with
/// neural networks it is a cross-correlation. `Kernel` is an extent or {height, width}. The variables: kernel [height x width x
/// channels x filters], glorot_uniform at first, and bias [filters], zero at first.
template <std::size_t Filters, Extent2D Kernel, class Activation = Linear, Conv2DOptions Options = Conv2DOptions{},
          Initializer KernelInitializer = glorot_uniform>
struct Conv2D {
  static_assert(Filters > 0, "lockstep: Conv2D needs at least one filter");
  static_assert(Kernel.height > 0 && Kernel.width > 0, "lockstep: the kernel of Conv2D must be at least 1 x 1");
  static_assert(Options.stride.height > 0 && Options.stride.width > 0,
                "lockstep: the stride of Conv2D must be at least 1");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of Conv2D is no activation function; use ls::ReLU, ls::Linear, ...");

  static constexpr std::string_view name = "conv2d";
  static constexpr bool keeps_padding = true;

  template <class In>
  using Output = decltype(detail::conv2d_output<In, Filters, Kernel, Options>());

  template <class In>
  static constexpr std::array variables{
      Variable{"kernel",
               {Kernel.height, Kernel.width, In::extents[2], Filters},
               KernelInitializer,
               Fans{Kernel.height * Kernel.width * In::extents[2], Kernel.height* Kernel.width* Filters}},
      Variable{"bias", {Filters}, zeros},
  };

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return kernels::convolution_scratch(size<In>(stride));
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::convolution_forward<T>(size<In>(pass.x.stride()), pass.x.data(), pass.weights[0].data(),
                                    pass.weights[1].data(), pass.y.data(), {detail::fused_minimum<Activation, T>()});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Output<In>::size * pass.y.stride(), pass.y.data(), pass.y.data());
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    constexpr bool fused = detail::is_fused<Activation, T> && kernels::sums_by_lane(size<In>(0));
    if constexpr (fused && !detail::is_identity<Activation>) {
      weight_gradient<In, T>(pass, {pass.dy.data(), pass.y.data(), detail::fused_minimum<Activation, T>()});
    } else {
      activation_gradient<In, T>(pass);
      weight_gradient<In, T>(pass, {pass.dy.data(), pass.dy.data()});
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    activation_gradient<In, T>(pass);
    weight_gradient<In, T>(pass, {pass.dy.data(), pass.dy.data()});
    kernels::convolution_input_gradient<T>(size<In>(pass.x.stride()), pass.weights[0].data(), pass.dy.data(),
                                           pass.dx.data());
  }

 private:
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
  static void activation_gradient(const BackwardPass<T>& pass) {
    if constexpr (!detail::is_identity<Activation>)
      detail::activation_gradient<Activation, T>(Output<In>::size * pass.y.stride(), pass.dy.data(), pass.y.data(),
                                                 pass.dy.data());
  }

  template <class In, class T>
  static void weight_gradient(const BackwardPass<T>& pass, const kernels::Delta<T>& delta) {
    kernels::convolution_weight_gradient<T>(size<In>(pass.x.stride()), pass.x.data(), delta, pass.gradients[0].data(),
                                            pass.gradients[1].data(), pass.scratch.data());
  }
};

static_assert(Layer<Conv2D<32, 3, ReLU>, Shape<28, 28, 1>>);
static_assert(Layer<Conv2D<8, Extent2D{1, 5}, Tanh, Conv2DOptions{.stride = {2, 1}, .padding = Padding::same}>,
                    Shape<7, 4, 3>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI
