// Attention in ONNX.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Heads and dimensions of an attention.
struct OnnxAttention {
  std::size_t heads, key_dim, value_dim, queries, keys;
  bool use_bias, causal;
};

/// Queries and values: sequences, and which of their positions count (see OnnxGraph::mask).
void onnx_attention(OnnxGraph& graph, const OnnxAttention& size, const OnnxGraph::Value& queries,
                    const OnnxGraph::Value& values, const std::string& query_mask,
                    const std::string& value_mask);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/attention.ipp"
#endif
