#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/onnx/detail/shapes.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void onnx_pad(OnnxGraph& graph, std::size_t top, std::size_t bottom,
                              std::size_t left, std::size_t right) {
  graph.lay_out(true);
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  const std::string pads = graph.constant(
      "pads", {0, 0, as_int(top), as_int(left), 0, 0, as_int(bottom), as_int(right)});
  graph.value().name = graph.node("Pad", {graph.value().name, pads});
}

LOCKSTEP_INLINE void onnx_pad_positions(OnnxGraph& graph, std::size_t left, std::size_t right) {
  graph.lay_out(false);
  graph.value().name = graph.node(
      "Pad", {graph.value().name, graph.constant("pads", {0, static_cast<std::int64_t>(left), 0, 0,
                                                          static_cast<std::int64_t>(right), 0})});
}

LOCKSTEP_INLINE void onnx_slice(OnnxGraph& graph, std::span<const std::size_t> begin,
                                std::span<const std::size_t> end) {
  graph.lay_out(false);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < begin.size(); ++i) axes.push_back(static_cast<std::int64_t>(i + 1));
  const std::string first = graph.constant("begin", {begin.begin(), begin.end()});
  const std::string last = graph.constant("end", {end.begin(), end.end()});
  graph.value().name =
      graph.node("Slice", {graph.value().name, first, last, graph.constant("axes", axes)});
}

LOCKSTEP_INLINE void onnx_permute(OnnxGraph& graph, std::span<const std::size_t> dims) {
  graph.lay_out(false);
  std::vector<std::int64_t> order = {0};
  for (const std::size_t dim : dims) order.push_back(static_cast<std::int64_t>(dim));
  graph.value().name = graph.transposed(graph.value().name, std::move(order));
}

LOCKSTEP_INLINE void onnx_up_sampling(OnnxGraph& graph, std::span<const std::size_t> factors,
                                      bool bilinear) {
  graph.lay_out(true);
  std::vector<float> scales = {1, 1};
  for (const std::size_t factor : factors) scales.push_back(static_cast<float>(factor));
  const std::size_t shape[] = {scales.size()};
  const std::string scale = graph.floats("scales", shape, scales);
  const auto text = [](std::string_view name, std::string_view value) {
    return OnnxAttribute{name, {}, 0, OnnxAttribute::Kind::text, value};
  };
  graph.value().name =
      graph.node("Resize", {graph.value().name, "", scale},
                 {text("mode", bilinear ? "linear" : "nearest"), text("nearest_mode", "floor"),
                  text("coordinate_transformation_mode", bilinear ? "half_pixel" : "asymmetric")});
}

LOCKSTEP_INLINE void onnx_repeat_vector(OnnxGraph& graph, std::size_t count, std::size_t width) {
  const std::string token =
      graph.reshaped(graph.value().name, {-1, 1, static_cast<std::int64_t>(width)});
  const std::string shape = graph.constant("shape", {1, static_cast<std::int64_t>(count), 1});
  graph.value() = {.name = graph.node("Expand", {token, shape}), .rank = 2};
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
