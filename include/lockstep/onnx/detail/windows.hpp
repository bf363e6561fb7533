// Convolution and pooling in ONNX: what has a window.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A window over images, height and width of everything; or over a sequence, where the first number
/// counts.
struct OnnxWindow {
  std::size_t rank;  ///< 2 or 1
  std::size_t kernel[2];
  std::size_t stride[2];
  std::size_t dilation[2];
  std::size_t begin[2];  ///< padding above and left
  std::size_t end[2];    ///< below and right
};

/// `is_depthwise`: each channel has filters of its own, whatever `groups` says.
void onnx_convolution(OnnxGraph& graph, const OnnxWindow& window, std::size_t groups, bool use_bias,
                      bool is_depthwise);
/// `outputs`: rows and columns of the result, which may be more than the windows cover.
void onnx_transposed_convolution(OnnxGraph& graph, const OnnxWindow& window,
                                 const std::size_t (&outputs)[2], const std::size_t (&inputs)[2],
                                 bool use_bias);
void onnx_pool(OnnxGraph& graph, std::string_view op, const OnnxWindow& window);
void onnx_global_pool(OnnxGraph& graph, std::string_view op);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/windows.ipp"
#endif
