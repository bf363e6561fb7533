#pragma once

#include <algorithm>
#include <numbers>
#include <utility>

#include "lockstep/onnx/detail/functions.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void onnx_dense(OnnxGraph& graph, bool use_bias) {
  std::vector<std::string> inputs = {graph.value().name, graph.weight(graph.take(true))};
  if (use_bias) inputs.push_back(graph.weight(graph.take(true)));
  graph.value() = {.name = graph.node("Gemm", inputs), .rank = 1};
}

LOCKSTEP_INLINE void onnx_softmax(OnnxGraph& graph) {
  graph.lay_out(false);
  graph.value().name = graph.node("Softmax", {graph.value().name},
                                  {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}});
}

LOCKSTEP_INLINE void onnx_rescale(OnnxGraph& graph, double scale, double offset) {
  graph.value().name = graph.node("Mul", {graph.value().name, graph.number(scale)});
  if (offset != 0)
    graph.value().name = graph.node("Add", {graph.value().name, graph.number(offset)});
}

LOCKSTEP_INLINE void onnx_silu(OnnxGraph& graph) {
  graph.value().name =
      graph.node("Mul", {graph.value().name, graph.node("Sigmoid", {graph.value().name})});
}

LOCKSTEP_INLINE void onnx_mish(OnnxGraph& graph) {
  graph.value().name = graph.node(
      "Mul",
      {graph.value().name, graph.node("Tanh", {graph.node("Softplus", {graph.value().name})})});
}

LOCKSTEP_INLINE void onnx_leaky_relu(OnnxGraph& graph, double slope) {
  graph.apply("LeakyRelu", {{"alpha", {}, static_cast<float>(slope), OnnxAttribute::Kind::number}});
}

LOCKSTEP_INLINE void onnx_relu6(OnnxGraph& graph) {
  graph.value().name = graph.node("Clip", {graph.value().name, graph.number(0), graph.number(6)});
}

/// x / 2 (1 + erf(x / sqrt(2)))
LOCKSTEP_INLINE void onnx_gelu(OnnxGraph& graph) {
  const std::string inner = graph.node(
      "Erf", {graph.node("Mul", {graph.value().name, graph.number(1 / std::numbers::sqrt2)})});
  const std::string half = graph.node("Mul", {graph.value().name, graph.number(0.5)});
  graph.value().name = graph.node("Mul", {half, graph.node("Add", {inner, graph.number(1)})});
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
LOCKSTEP_INLINE void onnx_gelu_tanh(OnnxGraph& graph) {
  const std::string cube = graph.node(
      "Mul", {graph.node("Mul", {graph.value().name, graph.value().name}), graph.value().name});
  const std::string sum =
      graph.node("Add", {graph.value().name, graph.node("Mul", {cube, graph.number(0.044715)})});
  const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const std::string inner = graph.node("Tanh", {graph.node("Mul", {sum, graph.number(root)})});
  graph.value().name =
      graph.node("Mul", {graph.node("Mul", {graph.value().name, graph.number(0.5)}),
                         graph.node("Add", {inner, graph.number(1)})});
}

LOCKSTEP_INLINE OnnxBranches::OnnxBranches(OnnxGraph& graph)
    : graph_(graph), input_(graph.value()), mask_(graph.mask()) {}

LOCKSTEP_INLINE OnnxBranches::~OnnxBranches() = default;

LOCKSTEP_INLINE void OnnxBranches::begin() {
  graph_.set_value(input_);
  graph_.set_mask(mask_);
}

LOCKSTEP_INLINE void OnnxBranches::end() {
  outputs_.push_back(graph_.value());
  masks_of_outputs_.push_back(graph_.mask());
}

/// See merged_mask in network/run_branches.hpp.
LOCKSTEP_INLINE std::string OnnxBranches::merged_mask() {
  std::vector<std::string>& masks = masks_of_outputs_;
  std::sort(masks.begin(), masks.end());
  masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
  if (masks.front().empty() || masks.size() == 1) return masks.front();
  return graph_.node("Max", masks);
}

LOCKSTEP_INLINE void OnnxBranches::merge(std::string_view op, double factor) {
  for (OnnxGraph::Value& output : outputs_) {  // all lie as the first one
    graph_.value() = output;
    graph_.lay_out(outputs_.front().channels_first);
    output = graph_.value();
  }
  graph_.set_value(outputs_.front());
  graph_.set_mask(merged_mask());
  if (op == "Concat") {
    std::vector<std::string> inputs;
    inputs.reserve(outputs_.size());
    for (const OnnxGraph::Value& output : outputs_) inputs.push_back(output.name);
    graph_.value().name = graph_.node(
        op, inputs,
        {{"axis", {graph_.value().channels_first ? 1 : -1}, 0, OnnxAttribute::Kind::one_int}});
    return;
  }
  for (std::size_t i = 1; i < outputs_.size(); ++i)
    graph_.value().name = graph_.node(op, {graph_.value().name, outputs_[i].name});
  if (factor != 1) onnx_rescale(graph_, factor, 0);
}

LOCKSTEP_INLINE void onnx_tied_logits(OnnxGraph& graph, const std::string& table) {
  graph.lay_out(false);
  graph.value().name = graph.node("MatMul", {graph.value().name, graph.transposed(table, {1, 0})});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
