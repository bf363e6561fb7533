// Normalisation in ONNX.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/normalizations.ipp"
#endif
