#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/onnx/detail/tokens.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string onnx_embedding(OnnxGraph& graph, bool mask_zero) {
  if (mask_zero)
    graph.set_mask(graph.node(
        "Cast", {graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_bool)})},
        {onnx_int("to", onnx::type_float)}));
  std::string table = graph.weight(graph.take(true));
  const std::string ids =
      graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_int64)});
  graph.value() = {.name = graph.node("Gather", {table, ids}), .rank = 2};
  return table;
}

LOCKSTEP_INLINE void onnx_position_embedding(OnnxGraph& graph, std::size_t positions) {
  graph.lay_out(false);
  OnnxArray rows = graph.take(true);
  rows.values.resize(positions * rows.shape[1]);
  rows.shape[0] = positions;
  graph.value().name = graph.node("Add", {graph.value().name, graph.weight(rows)});
}

LOCKSTEP_INLINE void onnx_masking(OnnxGraph& graph, std::size_t features, double value) {
  graph.lay_out(false);
  const OnnxGraph::Value x = graph.value();
  const std::string rows = graph.reshaped(x.name, {-1, static_cast<std::int64_t>(features)});
  const std::string equal = graph.node("Cast", {graph.node("Equal", {rows, graph.number(value)})},
                                       {onnx_int("to", onnx::type_float)});
  const std::string masked = graph.node("ReduceMin", {equal}, {{"axes", {-1}}});
  const std::string counts = graph.node("Sub", {graph.number(1), masked});
  const std::vector<std::int64_t> ones(x.rank, 1);
  std::vector<std::int64_t> shape = {-1};
  shape.insert(shape.end(), ones.begin(), ones.end());
  graph.value().name = graph.node("Mul", {x.name, graph.reshaped(counts, shape)});
  if (graph.positions() > 0)
    graph.set_mask(graph.reshaped(counts, {-1, static_cast<std::int64_t>(graph.positions())}));
}

LOCKSTEP_INLINE void onnx_masked_mean(OnnxGraph& graph, std::size_t positions) {
  graph.lay_out(false);
  const std::string axes = graph.constant("axes", {1});
  const std::string weights =
      graph.reshaped(graph.mask(), {-1, static_cast<std::int64_t>(positions), 1});
  const std::string sum =
      graph.node("ReduceSum", {graph.node("Mul", {graph.value().name, weights}), axes},
                 {onnx_int("keepdims", 0)});
  // The mean of none is zero.
  const std::string count =
      graph.node("Max", {graph.node("ReduceSum", {graph.mask(), axes}), graph.number(1)});
  graph.value() = {.name = graph.node("Div", {sum, count}), .rank = 1};
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
