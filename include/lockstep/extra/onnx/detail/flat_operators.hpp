// Dense layers, activations, normalisations and reshaping in ONNX.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/extra/onnx/detail/operator.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshaping.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class F>
inline constexpr bool is_leaky_relu = false;
template <int SlopePercent>
inline constexpr bool is_leaky_relu<LeakyReLU<SlopePercent>> = true;
template <class F>
inline constexpr double leaky_slope = 0;
template <int SlopePercent>
inline constexpr double leaky_slope<LeakyReLU<SlopePercent>> = SlopePercent / 100.0;

template <class F>
void write_activation(OnnxGraph& graph) {
  constexpr auto number = [](std::string_view name, double value) {
    return OnnxAttribute{name, {}, static_cast<float>(value), OnnxAttribute::Kind::number};
  };
  if constexpr (std::is_same_v<F, Linear>)
    return;
  else if constexpr (std::is_same_v<F, ReLU>)
    graph.apply("Relu");
  else if constexpr (std::is_same_v<F, ReLU6>)
    onnx_relu6(graph);
  else if constexpr (is_leaky_relu<F>)
    onnx_leaky_relu(graph, leaky_slope<F>);
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
    onnx_silu(graph);
  else if constexpr (std::is_same_v<F, Mish>)
    onnx_mish(graph);
  else if constexpr (std::is_same_v<F, GELU>)
    onnx_gelu(graph);
  else if constexpr (std::is_same_v<F, GELUTanh>)
    onnx_gelu_tanh(graph);
  else
    static_assert(!sizeof(F),
                  "lockstep: export_onnx knows no ONNX operator for this activation function");
}

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
    onnx_softmax(graph);
  }
};
template <Number Scale, Number Offset>
struct OnnxOperator<Rescaling<Scale, Offset>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_rescale(graph, Scale.value, Offset.value);
  }
};

void onnx_batch_normalization(OnnxGraph& graph, std::size_t channels, bool scale, bool center,
                              double epsilon);
void onnx_layer_normalization(OnnxGraph& graph, std::size_t channels, bool scale, bool center,
                              double epsilon);
void onnx_rms_normalization(OnnxGraph& graph, double epsilon);
/// Of samples whose last dimension are channels, in at most three dimensions. (The operator
/// GroupNormalization of set 18 has a factor for each group only, and that of set 21 is known to
/// few programs: this is made of the one for a single channel.)
void onnx_group_normalization(OnnxGraph& graph, std::span<const std::size_t> sample_shape,
                              std::size_t groups, bool scale, bool center, double epsilon);
/// (x - mean) / deviation of the two variables of Normalization, or the reverse.
void onnx_normalization(OnnxGraph& graph, bool invert);

inline void onnx_batch_normalization(OnnxGraph& graph, std::size_t channels, bool scale,
                                     bool center, double epsilon) {
  graph.lay_out(true);
  const std::string gamma =
      scale ? graph.weight(graph.take(true)) : graph.filled("ones", channels, 1);
  const std::string beta =
      center ? graph.weight(graph.take(true)) : graph.filled("zeros", channels, 0);
  const std::string mean = graph.weight(graph.take(false)),
                    variance = graph.weight(graph.take(false));
  graph.value().name =
      graph.node("BatchNormalization", {graph.value().name, gamma, beta, mean, variance},
                 {{"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
}

inline void onnx_layer_normalization(OnnxGraph& graph, std::size_t channels, bool scale,
                                     bool center, double epsilon) {
  graph.lay_out(false);
  std::vector<std::string> inputs = {graph.value().name};
  inputs.push_back(scale ? graph.weight(graph.take(true)) : graph.filled("ones", channels, 1));
  if (center) inputs.push_back(graph.weight(graph.take(true)));
  graph.value().name =
      graph.node("LayerNormalization", inputs,
                 {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int},
                  {"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
}

inline void onnx_rms_normalization(OnnxGraph& graph, double epsilon) {
  graph.lay_out(false);
  const std::string mean =
      graph.node("ReduceMean", {graph.node("Mul", {graph.value().name, graph.value().name})},
                 {{"axes", {-1}}});
  const std::string root = graph.node("Sqrt", {graph.node("Add", {mean, graph.number(epsilon)})});
  graph.value().name = graph.node(
      "Mul", {graph.node("Div", {graph.value().name, root}), graph.weight(graph.take(true))});
}

inline void onnx_normalization(OnnxGraph& graph, bool invert) {
  graph.lay_out(false);
  const OnnxArray& mean = graph.take(false);
  OnnxArray deviation = graph.take(false);
  for (float& value : deviation.values)
    value = static_cast<float>(std::max(std::sqrt(static_cast<double>(value)), 1e-7));
  const std::string offset = graph.weight(mean), factor = graph.weight(deviation);
  graph.value().name =
      invert ? graph.node("Add", {graph.node("Mul", {graph.value().name, factor}), offset})
             : graph.node("Div", {graph.node("Sub", {graph.value().name, offset}), factor});
}

inline void onnx_group_normalization(OnnxGraph& graph, std::span<const std::size_t> sample_shape,
                                     std::size_t groups, bool scale, bool center, double epsilon) {
  graph.lay_out(true);
  const std::size_t channels = sample_shape.back();
  // [batch x groups x all of a group]
  const std::string grouped =
      graph.reshaped(graph.value().name, {0, static_cast<std::int64_t>(groups), -1});
  const std::string normalized =
      graph.node("InstanceNormalization",
                 {grouped, graph.filled("ones", groups, 1), graph.filled("zeros", groups, 0)},
                 {{"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
  std::vector<std::int64_t> shape = {-1, static_cast<std::int64_t>(channels)};
  std::vector<std::size_t> of_channels = {channels};
  for (std::size_t i = 0; i + 1 < sample_shape.size(); ++i) {
    shape.push_back(static_cast<std::int64_t>(sample_shape[i]));
    of_channels.push_back(1);
  }
  graph.value().name = graph.reshaped(normalized, shape);
  const auto apply = [&](const char* op) {
    OnnxArray array = graph.take(true);
    array.shape = of_channels;
    graph.value().name = graph.node(op, {graph.value().name, graph.weight(array)});
  };
  if (scale) apply("Mul");
  if (center) apply("Add");
}

template <std::size_t Units, class A, DenseOptions Options>
struct OnnxOperator<Dense<Units, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_dense(graph, Options.use_bias);
    write_activation<A>(graph);
  }
};

template <class A, BatchNormalizationOptions Options>
struct OnnxOperator<BatchNormalization<A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(In::rank == 1 || In::rank == 3,
                  "lockstep: export_onnx takes BatchNormalization of flat samples and of images");
    onnx_batch_normalization(graph, In::extents[In::rank - 1], Options.scale, Options.center,
                             Options.epsilon);
    write_activation<A>(graph);
  }
};

template <LayerNormalizationOptions Options>
struct OnnxOperator<LayerNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_layer_normalization(graph, In::extents[In::rank - 1], Options.scale, Options.center,
                             Options.epsilon);
  }
};

template <int Groups, GroupNormalizationOptions Options>
struct OnnxOperator<GroupNormalization<Groups, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(
        is_sequence<In> ? In::rank == 2 : In::rank <= 3,
        "lockstep: export_onnx takes GroupNormalization of flat samples, of images, and of "
        "sequences of flat tokens");
    onnx_group_normalization(
        graph, In::extents,
        Groups == -1 ? In::extents[In::rank - 1] : static_cast<std::size_t>(Groups), Options.scale,
        Options.center, Options.epsilon);
  }
};
template <NormalizationOptions Options>
struct OnnxOperator<Normalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_normalization(graph, Options.invert);
  }
};
template <RMSNormalizationOptions Options>
struct OnnxOperator<RMSNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_rms_normalization(graph, Options.epsilon);
  }
};

template <std::size_t... Dims>
struct OnnxOperator<Permute<Dims...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, sizeof...(Dims)> dims{Dims...};
    onnx_permute(graph, dims);
  }
};
template <std::size_t Begin, std::size_t Count>
struct OnnxOperator<Slice<Begin, Count>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> begin{Begin}, end{Begin + Count};
    onnx_slice(graph, begin, end);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
