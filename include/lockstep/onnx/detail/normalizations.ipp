#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/onnx/detail/normalizations.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void onnx_batch_normalization(OnnxGraph& graph, std::size_t channels, bool scale,
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

LOCKSTEP_INLINE void onnx_layer_normalization(OnnxGraph& graph, std::size_t channels, bool scale,
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

LOCKSTEP_INLINE void onnx_rms_normalization(OnnxGraph& graph, double epsilon) {
  graph.lay_out(false);
  const std::string mean =
      graph.node("ReduceMean", {graph.node("Mul", {graph.value().name, graph.value().name})},
                 {{"axes", {-1}}});
  const std::string root = graph.node("Sqrt", {graph.node("Add", {mean, graph.number(epsilon)})});
  graph.value().name = graph.node(
      "Mul", {graph.node("Div", {graph.value().name, root}), graph.weight(graph.take(true))});
}

LOCKSTEP_INLINE void onnx_normalization(OnnxGraph& graph, bool invert) {
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

LOCKSTEP_INLINE void onnx_group_normalization(OnnxGraph& graph,
                                              std::span<const std::size_t> sample_shape,
                                              std::size_t groups, bool scale, bool center,
                                              double epsilon) {
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
