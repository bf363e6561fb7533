// What activation functions are in ONNX.
#pragma once

#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/activation.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/onnx/detail/functions.hpp"
#include "lockstep/onnx/detail/operator.hpp"
#include "lockstep/onnx/graph.hpp"

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
