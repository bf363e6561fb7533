// Embeddings and masks in ONNX. A mask is a value of its own, [batch x positions], 1 where a
// position counts and else 0.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Returns the name of the table. `mask_zero`: positions whose id is 0 are masked.
std::string onnx_embedding(OnnxGraph& graph, bool mask_zero);
void onnx_position_embedding(OnnxGraph& graph, std::size_t positions);
/// Tokens, or samples, of `features` numbers that all equal `value` become zero; tokens are masked.
void onnx_masking(OnnxGraph& graph, std::size_t features, double value);
/// The mean over the positions that count: of a sequence, flat samples.
void onnx_masked_mean(OnnxGraph& graph, std::size_t positions);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/tokens.ipp"
#endif
