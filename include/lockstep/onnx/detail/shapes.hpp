// What changes the shape of a sample in ONNX.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

void onnx_pad(OnnxGraph& graph, std::size_t top, std::size_t bottom, std::size_t left,
              std::size_t right);
/// Of a sequence: so many positions are added before and behind it.
void onnx_pad_positions(OnnxGraph& graph, std::size_t left, std::size_t right);
/// Keeps [begin, end) of the extents from the first one on.
void onnx_slice(OnnxGraph& graph, std::span<const std::size_t> begin,
                std::span<const std::size_t> end);
/// Dimension i becomes dimension dims[i], from 1.
void onnx_permute(OnnxGraph& graph, std::span<const std::size_t> dims);
/// Rows and columns, or positions, so many times.
void onnx_up_sampling(OnnxGraph& graph, std::span<const std::size_t> factors, bool bilinear);
void onnx_repeat_vector(OnnxGraph& graph, std::size_t count, std::size_t width);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/shapes.ipp"
#endif
