// What attention and recurrent layers are in ONNX.
#pragma once

#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/activations.hpp"
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

/// What an activation function is to the recurrent operators.
template <class F>
consteval OnnxGate onnx_gate() {
  if constexpr (std::is_same_v<F, Tanh>)
    return {"Tanh"};
  else if constexpr (std::is_same_v<F, Sigmoid>)
    return {"Sigmoid"};
  else if constexpr (std::is_same_v<F, Linear>)
    return {"Affine", 1, 0};
  else if constexpr (std::is_same_v<F, ReLU>)
    return {"Relu"};
  else if constexpr (std::is_same_v<F, HardSigmoid>)
    return {"HardSigmoid", 1.0 / 6, 0.5};
  else if constexpr (std::is_same_v<F, ELU>)
    return {"Elu", 1};
  else if constexpr (std::is_same_v<F, Softsign>)
    return {"Softsign"};
  else if constexpr (std::is_same_v<F, Softplus>)
    return {"Softplus"};
  else
    static_assert(!sizeof(F),
                  "lockstep: ONNX's recurrent operators do not have this activation function: "
                  "export_onnx cannot write the layer");
}

/// What an operator of ONNX needs to know of a recurrent layer.
template <class L>
struct OnnxRecurrent;
template <std::size_t Units, LSTMOptions Options, class Activation, class RecurrentActivation>
struct OnnxRecurrent<LSTM<Units, Options, Activation, RecurrentActivation>> {
  static constexpr OnnxRecurrence layer() {
    return {.op = "LSTM",
            .units = Units,
            .positions = 0,
            .use_bias = Options.use_bias,
            .return_sequences = Options.return_sequences,
            .go_backwards = Options.go_backwards,
            .bidirectional = false,
            .activation = onnx_gate<Activation>(),
            .recurrent_activation = onnx_gate<RecurrentActivation>()};
  }
};
template <std::size_t Units, GRUOptions Options, class Activation, class RecurrentActivation>
struct OnnxRecurrent<GRU<Units, Options, Activation, RecurrentActivation>> {
  static constexpr OnnxRecurrence layer() {
    return {.op = "GRU",
            .units = Units,
            .positions = 0,
            .use_bias = Options.use_bias,
            .return_sequences = Options.return_sequences,
            .go_backwards = Options.go_backwards,
            .bidirectional = false,
            .reset_after = Options.reset_after,
            .activation = onnx_gate<Activation>(),
            .recurrent_activation = onnx_gate<RecurrentActivation>()};
  }
};
template <std::size_t Units, SimpleRNNOptions Options, class Activation>
struct OnnxRecurrent<SimpleRNN<Units, Options, Activation>> {
  static constexpr OnnxRecurrence layer() {
    return {.op = "RNN",
            .units = Units,
            .positions = 0,
            .use_bias = Options.use_bias,
            .return_sequences = Options.return_sequences,
            .go_backwards = Options.go_backwards,
            .bidirectional = false,
            .activation = onnx_gate<Activation>()};
  }
};
template <class L>
  requires requires { &OnnxRecurrent<L>::layer; }
struct OnnxOperator<L> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxRecurrence layer = OnnxRecurrent<L>::layer();
    layer.positions = positions_of<In>;
    onnx_recurrence(graph, layer);
  }
};
template <class L, MergeMode Merge>
struct OnnxOperator<Bidirectional<L, Merge>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxRecurrence layer = OnnxRecurrent<L>::layer();
    layer.positions = positions_of<In>;
    layer.bidirectional = true;
    if (Merge == MergeMode::mul) layer.merge = "ReduceProd";
    if (Merge == MergeMode::sum || Merge == MergeMode::ave) layer.merge = "ReduceMean";
    if (Merge == MergeMode::sum) layer.factor = 2;
    onnx_recurrence(graph, layer);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
