// Recurrent layers in ONNX.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// An activation function of a recurrent operator, with those of its numbers that it has.
struct OnnxGate {
  std::string_view function;
  std::optional<double> alpha = {}, beta = {};
};

/// A recurrent layer, or two of them in both directions.
struct OnnxRecurrence {
  std::string_view op;  ///< LSTM, GRU or RNN
  std::size_t units, positions;
  bool use_bias, return_sequences;
  bool go_backwards, bidirectional;
  bool reset_after = false;           ///< GRU
  std::string_view merge = "Concat";  ///< of both directions; or an operator that reduces
  double factor = 1;                  ///< of its output
  OnnxGate activation{"Tanh"}, recurrent_activation{"Sigmoid"};
};

/// Of a sequence, or of the positions of it that count.
void onnx_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/detail/recurrence.ipp"
#endif
