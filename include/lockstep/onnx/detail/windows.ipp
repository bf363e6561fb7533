#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/onnx/detail/windows.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Of height and width, or of the one extent of a sequence.
LOCKSTEP_INLINE std::vector<std::int64_t> onnx_ints(const OnnxWindow& window,
                                                    const std::size_t (&numbers)[2]) {
  std::vector<std::int64_t> ints;
  for (std::size_t i = 0; i < window.rank; ++i)
    ints.push_back(static_cast<std::int64_t>(numbers[i]));
  return ints;
}

LOCKSTEP_INLINE std::vector<std::int64_t> onnx_pads(const OnnxWindow& window) {
  std::vector<std::int64_t> pads = onnx_ints(window, window.begin);
  for (const std::int64_t end : onnx_ints(window, window.end)) pads.push_back(end);
  return pads;
}

LOCKSTEP_INLINE void onnx_convolution(OnnxGraph& graph, const OnnxWindow& window,
                                      std::size_t groups, bool use_bias, bool is_depthwise) {
  graph.lay_out(true);
  // [height x width x channels x filters] becomes [filters x channels x height x width]; where each
  // channel has filters of its own, [channels * filters x 1 x height x width]. Of a sequence, there
  // is one extent for both.
  const OnnxArray& kernel = graph.take(true);
  const std::size_t rank = window.rank, channels = kernel.shape[rank],
                    filters = kernel.shape[rank + 1],
                    pixels = rank == 1 ? kernel.shape[0] : kernel.shape[0] * kernel.shape[1];
  OnnxArray turned{
      .name = kernel.name,
      .shape = {is_depthwise ? channels * filters : filters, is_depthwise ? 1 : channels},
      .values = std::vector<float>(kernel.values.size())};
  turned.shape.insert(turned.shape.end(), kernel.shape.begin(),
                      kernel.shape.begin() + static_cast<std::ptrdiff_t>(rank));
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t f = 0; f < filters; ++f) {
        const std::size_t row = is_depthwise ? c * filters + f : f * channels + c;
        turned.values[row * pixels + p] = kernel.values[(p * channels + c) * filters + f];
      }
  std::vector<std::string> inputs = {graph.value().name, graph.weight(turned)};
  if (use_bias) inputs.push_back(graph.weight(graph.take(true)));
  const auto both = [&](const std::size_t(&numbers)[2]) { return onnx_ints(window, numbers); };
  const auto group = static_cast<std::int64_t>(is_depthwise ? channels : groups);
  graph.value().name = graph.node("Conv", inputs,
                                  {{"kernel_shape", both(window.kernel)},
                                   {"strides", both(window.stride)},
                                   {"dilations", both(window.dilation)},
                                   {"pads", onnx_pads(window)},
                                   {"group", {group}, 0, OnnxAttribute::Kind::one_int}});
}

LOCKSTEP_INLINE void onnx_pool(OnnxGraph& graph, std::string_view op, const OnnxWindow& window) {
  graph.lay_out(true);
  graph.value().name = graph.node(op, {graph.value().name},
                                  {{"kernel_shape", onnx_ints(window, window.kernel)},
                                   {"strides", onnx_ints(window, window.stride)},
                                   {"pads", onnx_pads(window)}});
}

LOCKSTEP_INLINE void onnx_global_pool(OnnxGraph& graph, std::string_view op) {
  graph.lay_out(true);
  const std::string pooled = graph.node(op, {graph.value().name});
  graph.value() = {.name = graph.node("Flatten", {pooled}), .rank = 1};
}

LOCKSTEP_INLINE void onnx_transposed_convolution(OnnxGraph& graph, const OnnxWindow& window,
                                                 const std::size_t (&outputs)[2],
                                                 const std::size_t (&inputs)[2], bool use_bias) {
  graph.lay_out(true);
  // [height x width x filters x channels] becomes [channels x filters x height x width].
  const OnnxArray& kernel = graph.take(true);
  const std::size_t pixels = kernel.shape[0] * kernel.shape[1], filters = kernel.shape[2],
                    channels = kernel.shape[3];
  OnnxArray turned{.name = kernel.name,
                   .shape = {channels, filters, kernel.shape[0], kernel.shape[1]},
                   .values = std::vector<float>(kernel.values.size())};
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t f = 0; f < filters; ++f)
      for (std::size_t c = 0; c < channels; ++c)
        turned.values[(c * filters + f) * pixels + p] =
            kernel.values[(p * filters + f) * channels + c];
  std::vector<std::string> arguments = {graph.value().name, graph.weight(turned)};
  if (use_bias) arguments.push_back(graph.weight(graph.take(true)));
  // Rows that the windows cover beyond the result are cut off; rows of the result that no window
  // covers, as the stride is larger, hold the bias alone.
  std::vector<std::int64_t> pads(4, 0), more(2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t covered = (inputs[i] - 1) * window.stride[i] +
                                (window.kernel[i] - 1) * window.dilation[i] + 1,
                      wanted = outputs[i] + window.begin[i];
    pads[i] = static_cast<std::int64_t>(window.begin[i]);
    pads[2 + i] = static_cast<std::int64_t>(covered > wanted ? covered - wanted : 0);
    more[i] = static_cast<std::int64_t>(wanted > covered ? wanted - covered : 0);
  }
  graph.value().name = graph.node("ConvTranspose", arguments,
                                  {{"kernel_shape", onnx_ints(window, window.kernel)},
                                   {"strides", onnx_ints(window, window.stride)},
                                   {"dilations", onnx_ints(window, window.dilation)},
                                   {"pads", pads},
                                   {"output_padding", more}});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
