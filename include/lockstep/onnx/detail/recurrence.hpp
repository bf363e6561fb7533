// Recurrent layers in ONNX.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A recurrent layer, or two of them in both directions.
struct OnnxRecurrence {
  std::string_view op;  ///< LSTM, GRU or RNN
  std::size_t units, positions;
  bool use_bias, return_sequences;
  bool go_backwards, bidirectional;
  bool reset_after = false;           ///< GRU
  std::string_view merge = "Concat";  ///< of both directions; or an operator that reduces
  double factor = 1;                  ///< of its output
};

/// Of a sequence, or of the positions of it that count.
void onnx_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/recurrence.ipp"
#endif
