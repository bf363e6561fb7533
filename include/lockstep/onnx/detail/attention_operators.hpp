// What attention and recurrent layers are in ONNX.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/gru.hpp"
#include "lockstep/layers/lstm.hpp"
#include "lockstep/layers/multi_head_attention.hpp"
#include "lockstep/layers/simple_rnn.hpp"
#include "lockstep/onnx/detail/attention.hpp"
#include "lockstep/onnx/detail/operator.hpp"
#include "lockstep/onnx/detail/recurrence.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options, class Queries,
          class Values>
constexpr OnnxAttention onnx_attention_size() {
  return {.heads = Heads,
          .key_dim = KeyDim,
          .value_dim = Options.value_dim == 0 ? KeyDim : Options.value_dim,
          .queries = positions_of<Queries>,
          .keys = positions_of<Values>,
          .use_bias = Options.use_bias,
          .causal = Options.use_causal_mask};
}
template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options>
struct OnnxOperator<MultiHeadAttention<Heads, KeyDim, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    const OnnxGraph::Value x = graph.value();
    onnx_attention(graph, onnx_attention_size<Heads, KeyDim, Options, In, In>(), x, x, graph.mask(),
                   graph.mask());
  }
};

/// What an operator of ONNX needs to know of a recurrent layer.
template <class L>
struct OnnxRecurrent;
template <std::size_t Units, LSTMOptions Options>
struct OnnxRecurrent<LSTM<Units, Options>> {
  static constexpr OnnxRecurrence layer{
      "LSTM", Units, 0, Options.use_bias, Options.return_sequences, Options.go_backwards, false};
};
template <std::size_t Units, GRUOptions Options>
struct OnnxRecurrent<GRU<Units, Options>> {
  static constexpr OnnxRecurrence layer{"GRU",
                                        Units,
                                        0,
                                        Options.use_bias,
                                        Options.return_sequences,
                                        Options.go_backwards,
                                        false,
                                        Options.reset_after};
};
template <std::size_t Units, SimpleRNNOptions Options>
struct OnnxRecurrent<SimpleRNN<Units, Options>> {
  static constexpr OnnxRecurrence layer{
      "RNN", Units, 0, Options.use_bias, Options.return_sequences, Options.go_backwards, false};
};
template <class L>
  requires requires { OnnxRecurrent<L>::layer; }
struct OnnxOperator<L> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxRecurrence layer = OnnxRecurrent<L>::layer;
    layer.positions = positions_of<In>;
    onnx_recurrence(graph, layer);
  }
};
template <class L, MergeMode Merge>
struct OnnxOperator<Bidirectional<L, Merge>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxRecurrence layer = OnnxRecurrent<L>::layer;
    layer.positions = positions_of<In>;
    layer.bidirectional = true;
    if (Merge == MergeMode::mul) layer.merge = "ReduceProd";
    if (Merge == MergeMode::sum || Merge == MergeMode::ave) layer.merge = "ReduceMean";
    if (Merge == MergeMode::sum) layer.factor = 2;
    onnx_recurrence(graph, layer);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
