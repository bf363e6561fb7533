// What each layer is in ONNX.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/activation.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/average_pooling2d.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/depthwise_conv2d.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/global_average_pooling2d.hpp"
#include "lockstep/layers/global_max_pooling2d.hpp"
#include "lockstep/layers/identity.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/max_pooling2d.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshape.hpp"
#include "lockstep/layers/zero_padding2d.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class F>
void write_activation(OnnxGraph& graph) {
  constexpr auto number = [](std::string_view name, double value) {
    return OnnxAttribute{name, {}, static_cast<float>(value), OnnxAttribute::Kind::number};
  };
  if constexpr (std::is_same_v<F, Linear>)
    return;
  else if constexpr (std::is_same_v<F, ReLU>)
    graph.apply("Relu");
  else if constexpr (std::is_same_v<F, Sigmoid>)
    graph.apply("Sigmoid");
  else if constexpr (std::is_same_v<F, Tanh>)
    graph.apply("Tanh");
  else if constexpr (std::is_same_v<F, ELU>)
    graph.apply("Elu");
  else if constexpr (std::is_same_v<F, SELU>)
    graph.apply("Selu");
  else if constexpr (std::is_same_v<F, Softplus>)
    graph.apply("Softplus");
  else if constexpr (std::is_same_v<F, Softsign>)
    graph.apply("Softsign");
  else if constexpr (std::is_same_v<F, Exponential>)
    graph.apply("Exp");
  else if constexpr (std::is_same_v<F, HardSigmoid>)
    graph.apply("HardSigmoid", {number("alpha", 1.0 / 6), number("beta", 0.5)});
  else if constexpr (std::is_same_v<F, HardSiLU>)
    graph.apply("HardSwish");
  else if constexpr (std::is_same_v<F, SiLU>)
    graph.silu();
  else if constexpr (std::is_same_v<F, Mish>)
    graph.mish();
  else if constexpr (std::is_same_v<F, GELU>)
    graph.gelu();
  else if constexpr (std::is_same_v<F, GELUTanh>)
    graph.gelu_tanh();
  else
    static_assert(!sizeof(F),
                  "lockstep: export_onnx knows no ONNX operator for this activation function");
}

/// The window of a layer over images of shape In.
template <class In>
constexpr OnnxWindow onnx_window(Extent2D kernel, Extent2D stride, Extent2D dilation,
                                 Padding padding) {
  const Extent2D covered = dilated(kernel, dilation);
  OnnxWindow window{{kernel.height, kernel.width},
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

/// write<In>(graph): what a layer does to samples of shape In.
template <class L>
struct OnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {
    static_assert(
        !sizeof(L),
        "lockstep: export_onnx knows no ONNX operator for this layer; see onnx/operators.hpp");
  }
};

/// Layers that do nothing in inference.
struct NoOnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {}
};
template <std::size_t... Extents>
struct OnnxOperator<Input<Extents...>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<Dropout<Rate>> : NoOnnxOperator {};
template <>
struct OnnxOperator<Identity> : NoOnnxOperator {};

template <std::size_t Units, class A, DenseOptions Options>
struct OnnxOperator<Dense<Units, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(In::rank == 1, "lockstep: export_onnx takes no sequences");
    graph.dense(Options.use_bias);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DOptions Options>
struct OnnxOperator<Conv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.convolution(
        onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};

template <Extent2D Kernel, class A, DepthwiseConv2DOptions Options>
struct OnnxOperator<DepthwiseConv2D<Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.convolution(
        onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1,
        Options.use_bias, true);
    write_activation<A>(graph);
  }
};

template <class A, BatchNormalizationOptions Options>
struct OnnxOperator<BatchNormalization<A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(In::rank == 1 || In::rank == 3,
                  "lockstep: export_onnx takes BatchNormalization of flat samples and of images");
    graph.batch_normalization(In::extents[In::rank - 1], Options.scale, Options.center,
                              Options.epsilon);
    write_activation<A>(graph);
  }
};

template <LayerNormalizationOptions Options>
struct OnnxOperator<LayerNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.layer_normalization(In::extents[In::rank - 1], Options.scale, Options.center,
                              Options.epsilon);
  }
};

template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<MaxPooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pool("MaxPool",
               onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<AveragePooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pool("AveragePool",
               onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.global_pool("GlobalAveragePool");
  }
};
template <>
struct OnnxOperator<GlobalMaxPooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.global_pool("GlobalMaxPool");
  }
};

template <Margins2D Margins>
struct OnnxOperator<ZeroPadding2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pad(Margins.top, Margins.bottom, Margins.left, Margins.right);
  }
};

template <>
struct OnnxOperator<Flatten> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> shape{In::size};
    graph.reshape(shape);
  }
};
template <std::size_t... Extents>
struct OnnxOperator<Reshape<Extents...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, sizeof...(Extents)> shape{Extents...};
    graph.reshape(shape);
  }
};

template <class F>
struct OnnxOperator<Activation<F>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    write_activation<F>(graph);
  }
};
template <>
struct OnnxOperator<Softmax> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.softmax();
  }
};
template <Number Scale, Number Offset>
struct OnnxOperator<Rescaling<Scale, Offset>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.rescale(Scale.value, Offset.value);
  }
};

/// The layers one after the other.
template <class In, class First, class... Rest>
void write_layers(OnnxGraph& graph) {
  OnnxOperator<First>::template write<In>(graph);
  if constexpr (sizeof...(Rest) > 0)
    write_layers<typename OutputShape<First, In>::Type, Rest...>(graph);
}
template <class... Layers>
struct OnnxOperator<Sequential<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    write_layers<In, Layers...>(graph);
  }
};
template <std::size_t Times, class L>
struct OnnxOperator<Repeat<Times, L>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    for (std::size_t i = 0; i < Times; ++i) OnnxOperator<L>::template write<In>(graph);
  }
};

/// The layers beside each other.
template <class In, class... Branches>
void write_branches(OnnxGraph& graph, std::string_view op, double factor) {
  const OnnxGraph::Value input = graph.value();
  std::vector<OnnxGraph::Value> outputs;
  const auto write_branch = [&]<class Branch>(std::type_identity<Branch>) {
    graph.set_value(input);
    OnnxOperator<Branch>::template write<In>(graph);
    outputs.push_back(graph.value());
  };
  (write_branch(std::type_identity<Branches>{}), ...);
  graph.merge(op, std::move(outputs), factor);
}
template <class Merge, class... Branches>
struct OnnxOperator<Parallel<Merge, Branches...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr double mean =
        std::is_same_v<Merge, Average> ? 1.0 / static_cast<double>(sizeof...(Branches)) : 1.0;
    if constexpr (std::is_same_v<Merge, Add> || std::is_same_v<Merge, Average>)
      write_branches<In, Branches...>(graph, "Add", mean);
    else if constexpr (std::is_same_v<Merge, Multiply>)
      write_branches<In, Branches...>(graph, "Mul", 1);
    else if constexpr (std::is_same_v<Merge, Concatenate>)
      write_branches<In, Branches...>(graph, "Concat", 1);
    else
      static_assert(!sizeof(Merge), "lockstep: export_onnx knows no ONNX operator for this merge");
  }
};
template <class... Layers>
struct OnnxOperator<Residual<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    if constexpr (sizeof...(Layers) == 2 && (is_sequential<Layers> && ...))
      write_branches<In, Layers...>(graph, "Add", 1);
    else
      write_branches<In, Identity, Sequential<Layers...>>(graph, "Add", 1);
  }
};

template <class L>
struct OnnxOperator<Frozen<L>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t trained = variables_of<L, In>().size(),
                          others = state_variables_of<L, In>().size();
    const auto before = graph.freeze(trained);
    OnnxOperator<L>::template write<In>(graph);
    graph.unfreeze(before, trained + others);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
