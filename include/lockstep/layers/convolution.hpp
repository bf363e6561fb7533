// What the convolution layers share: shapes, and how the kernels become a layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/kernels/winograd.hpp"
#include "lockstep/kernels/winograd_weights.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// A layer of `Geometry` (GroupedConvolution, DepthwiseConvolution) whose variables are a kernel
/// and perhaps a bias: y = Activation(x convolved with the kernel + bias).
template <class Geometry, class Activation, bool UseBias>
struct ConvolutionLayer : Geometry {
  static constexpr bool keeps_padding = true;

  template <class In, class T>
  static constexpr bool keeps_dy = is_identity<Activation>;
  template <class In, class T>
  static constexpr bool adds_to_dx = !Geometry::template size<In>(16).is_depthwise();

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
  /// The same for every batch.
  template <class In>
  static constexpr bool uses_winograd = kernels::uses_winograd(Geometry::template size<In>(16));

  static constexpr std::size_t outputs(const kernels::ConvolutionSize& size) {
    return size.out_height * size.out_width * size.all_filters() * size.batch;
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
