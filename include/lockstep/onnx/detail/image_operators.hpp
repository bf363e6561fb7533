// What layers over images are in ONNX: convolution and pooling.
#pragma once

#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/average_pooling2d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/cropping2d.hpp"
#include "lockstep/layers/depthwise_conv2d.hpp"
#include "lockstep/layers/global_average_pooling2d.hpp"
#include "lockstep/layers/global_max_pooling2d.hpp"
#include "lockstep/layers/max_pooling2d.hpp"
#include "lockstep/layers/separable_conv2d.hpp"
#include "lockstep/layers/up_sampling2d.hpp"
#include "lockstep/layers/window.hpp"
#include "lockstep/layers/zero_padding2d.hpp"
#include "lockstep/onnx/detail/activation_operators.hpp"
#include "lockstep/onnx/detail/operator.hpp"
#include "lockstep/onnx/detail/shapes.hpp"
#include "lockstep/onnx/detail/windows.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The window of a layer over images of shape In.
template <class In>
constexpr OnnxWindow onnx_window(Extent2D kernel, Extent2D stride, Extent2D dilation,
                                 Padding padding) {
  const Extent2D covered = dilated(kernel, dilation);
  OnnxWindow window{2,
                    {kernel.height, kernel.width},
                    {stride.height, stride.width},
                    {dilation.height, dilation.width},
                    {},
                    {}};
  const std::size_t extents[] = {covered.height, covered.width};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t outputs =
        window_outputs(In::extents[i], extents[i], window.stride[i], padding);
    const std::size_t needed = (outputs - 1) * window.stride[i] + extents[i];
    window.begin[i] = window_padding(In::extents[i], extents[i], window.stride[i], padding);
    const std::size_t there = In::extents[i] + window.begin[i];
    window.end[i] = needed > there ? needed - there : 0;
  }
  return window;
}

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DOptions Options>
struct OnnxOperator<Conv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};

template <Extent2D Kernel, class A, DepthwiseConv2DOptions Options>
struct OnnxOperator<DepthwiseConv2D<Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1,
        Options.use_bias, true);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, SeparableConv2DOptions Options>
struct OnnxOperator<SeparableConv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1,
        false, true);
    onnx_convolution(graph, {2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1, Options.use_bias,
                     false);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DTransposeOptions Options>
struct OnnxOperator<Conv2DTranspose<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    // The padding of the convolution whose input is this layer's output.
    using Out = typename Conv2DTranspose<Filters, Kernel, A, Options>::template Output<In>;
    onnx_transposed_convolution(
        graph, onnx_window<Out>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        {Out::extents[0], Out::extents[1]}, {In::extents[0], In::extents[1]}, Options.use_bias);
    write_activation<A>(graph);
  }
};

template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<MaxPooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(graph, "MaxPool",
              onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<AveragePooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(graph, "AveragePool",
              onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalAveragePool");
  }
};
template <>
struct OnnxOperator<GlobalMaxPooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalMaxPool");
  }
};

template <Margins2D Margins>
struct OnnxOperator<ZeroPadding2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pad(graph, Margins.top, Margins.bottom, Margins.left, Margins.right);
  }
};

template <Margins2D Margins>
struct OnnxOperator<Cropping2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 2> begin{Margins.top, Margins.left},
        end{In::extents[0] - Margins.bottom, In::extents[1] - Margins.right};
    onnx_slice(graph, begin, end);
  }
};
template <Extent2D Size, UpSampling2DOptions Options>
struct OnnxOperator<UpSampling2D<Size, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 2> factors{Size.height, Size.width};
    onnx_up_sampling(graph, factors, Options.interpolation == Interpolation::bilinear);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
