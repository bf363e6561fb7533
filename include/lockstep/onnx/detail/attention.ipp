#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/onnx/detail/attention.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string onnx_projected(OnnxGraph& graph, const std::string& x, std::size_t rows,
                                           bool use_bias) {
  OnnxArray kernel = graph.take(true);
  kernel.shape = {rows, kernel.values.size() / rows};
  std::string product = graph.node("MatMul", {x, graph.weight(kernel)});
  if (!use_bias) return product;
  OnnxArray bias = graph.take(true);
  bias.shape = {bias.values.size()};
  return graph.node("Add", {product, graph.weight(bias)});
}

/// 1 where a query sees a key, else 0, for scores [batch x heads x queries x keys]; empty: all see
/// all.
LOCKSTEP_INLINE std::string onnx_visible_keys(OnnxGraph& graph, const OnnxAttention& size,
                                              const std::string& value_mask) {
  std::string causal, keys;
  if (size.causal) {
    std::vector<float> visible(size.queries * size.keys, 1);
    for (std::size_t t = 0; t < size.queries; ++t)
      for (std::size_t s = t + 1; s < size.keys; ++s) visible[t * size.keys + s] = 0;
    const std::size_t shape[] = {size.queries, size.keys};
    causal = graph.floats("visible", shape, visible);
  }
  if (!value_mask.empty())
    keys = graph.reshaped(value_mask, {-1, 1, 1, static_cast<std::int64_t>(size.keys)});
  if (causal.empty() || keys.empty()) return causal.empty() ? keys : causal;
  return graph.node("Mul", {causal, keys});
}

LOCKSTEP_INLINE void onnx_attention(OnnxGraph& graph, const OnnxAttention& size,
                                    const OnnxGraph::Value& queries, const OnnxGraph::Value& values,
                                    const std::string& query_mask, const std::string& value_mask) {
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  graph.value() = queries;
  graph.lay_out(false);
  const std::string q = graph.value().name;
  graph.value() = values;
  graph.lay_out(false);
  const std::string v = graph.value().name;
  /// [batch x positions x heads * features], with an axis for the heads
  const auto heads = [&](const std::string& x, std::size_t positions, std::size_t features,
                         std::vector<std::int64_t> order) {
    return graph.transposed(
        graph.reshaped(x, {-1, as_int(positions), as_int(size.heads), as_int(features)}),
        std::move(order));
  };
  const auto rows = [&] {  // of the next kernel, [width x heads x features]
    return graph.next_trained().shape[0];
  };
  const std::string query =
      graph.node("Mul", {onnx_projected(graph, q, rows(), size.use_bias),
                         graph.number(1 / std::sqrt(static_cast<double>(size.key_dim)))});
  const std::string key = onnx_projected(graph, v, rows(), size.use_bias);
  const std::string value = onnx_projected(graph, v, rows(), size.use_bias);
  std::string scores = graph.node("MatMul", {heads(query, size.queries, size.key_dim, {0, 2, 1, 3}),
                                             heads(key, size.keys, size.key_dim, {0, 2, 3, 1})});
  const std::string visible = onnx_visible_keys(graph, size, value_mask);
  if (!visible.empty())
    scores =
        graph.node("Add", {scores, graph.node("Mul", {graph.node("Sub", {visible, graph.number(1)}),
                                                      graph.number(1e9)})});
  std::string weights =
      graph.node("Softmax", {scores}, {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}});
  // A query that is masked, or whose keys all are, sees none.
  if (!value_mask.empty()) weights = graph.node("Mul", {weights, visible});
  if (!query_mask.empty())
    weights =
        graph.node("Mul", {weights, graph.reshaped(query_mask, {-1, 1, as_int(size.queries), 1})});
  const std::string seen =
      graph.node("MatMul", {weights, heads(value, size.keys, size.value_dim, {0, 2, 1, 3})});
  const std::string joined =
      graph.reshaped(graph.transposed(seen, {0, 2, 1, 3}),
                     {-1, as_int(size.queries), as_int(size.heads * size.value_dim)});
  graph.value() = {
      .name = onnx_projected(graph, joined, size.heads * size.value_dim, size.use_bias), .rank = 2};
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
