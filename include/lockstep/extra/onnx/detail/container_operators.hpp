// Recurrence, attention and containers as operators of ONNX.
//
// (One file of more than 800 lines: an entry for each layer, all of them one table, and they share
// masks, states and projections.)
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/model/inputs_outputs.hpp"
#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/network/spectral_normalization.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/network/time_distributed.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

/// Runs over a sequence, or over its positions that count.
void onnx_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer);

/// The kernels and biases of one direction or of both.
struct OnnxRecurrentArrays {
  ExportedArray w, r, b;
};

/// [inputs x gates * units] becomes [gates * units x inputs], the gates in another order.
inline void onnx_append_gates(const ExportedArray& from, std::size_t units,
                              std::span<const std::size_t> order, std::size_t begin,
                              std::size_t inputs, std::vector<float>& to) {
  for (const std::size_t gate : order)
    for (std::size_t unit = 0; unit < units; ++unit)
      for (std::size_t input = 0; input < inputs; ++input)
        to.push_back(from.values[begin + input * order.size() * units + gate * units + unit]);
}

inline void onnx_take_direction(OnnxGraph& graph, const OnnxRecurrence& layer,
                                OnnxRecurrentArrays& to) {
  // ONNX has the gates of LSTM in the order input, output, forget, cell.
  static constexpr std::size_t lstm[] = {0, 3, 1, 2}, gru[] = {0, 1, 2}, rnn[] = {0};
  const std::span<const std::size_t> order = layer.op == "LSTM" ? std::span<const std::size_t>(lstm)
                                             : layer.op == "GRU" ? std::span<const std::size_t>(gru)
                                                                 : rnn;
  const ExportedArray& kernel = graph.take(true);
  if (to.w.name.empty()) to.w.name = kernel.name;
  onnx_append_gates(kernel, layer.units, order, 0, kernel.shape[0], to.w.values);
  const ExportedArray& recurrent = graph.take(true);
  if (to.r.name.empty()) to.r.name = recurrent.name;
  onnx_append_gates(recurrent, layer.units, order, 0, layer.units, to.r.values);
  if (!layer.use_bias) return;
  const ExportedArray& bias = graph.take(true);
  if (to.b.name.empty()) to.b.name = bias.name;
  const std::size_t rows = order.size() * layer.units;
  onnx_append_gates(bias, layer.units, order, 0, 1, to.b.values);
  if (bias.shape.size() == 2)
    onnx_append_gates(bias, layer.units, order, rows, 1, to.b.values);
  else
    to.b.values.resize(to.b.values.size() + rows, 0);
}

/// Its activation functions, unless they are the operator's.
inline void onnx_add_activations(const OnnxRecurrence& layer, std::size_t directions,
                                 std::vector<OnnxAttribute>& attributes) {
  if (layer.activation.function == "Tanh" && layer.recurrent_activation.function == "Sigmoid")
    return;
  using Kind = OnnxAttribute::Kind;
  OnnxAttribute functions{"activations", {}, 0, Kind::texts},
      alphas{"activation_alpha", {}, 0, Kind::numbers},
      betas{"activation_beta", {}, 0, Kind::numbers};
  std::vector<OnnxGate> gates{layer.activation};
  if (layer.op != "RNN") gates.insert(gates.begin(), layer.recurrent_activation);
  if (layer.op == "LSTM") gates.push_back(layer.activation);
  for (std::size_t i = 0; i < directions; ++i)
    for (const OnnxGate& gate : gates) {
      functions.texts.push_back(gate.function);
      if (gate.alpha) alphas.numbers.push_back(static_cast<float>(*gate.alpha));
      if (gate.beta) betas.numbers.push_back(static_cast<float>(*gate.beta));
    }
  attributes.push_back(std::move(functions));
  if (!alphas.numbers.empty()) attributes.push_back(std::move(alphas));
  if (!betas.numbers.empty()) attributes.push_back(std::move(betas));
}

/// All outputs, [positions x directions x batch x units], or the last ones, [directions x batch x
/// units], of a sequence [batch x positions x features].
inline std::string onnx_recurrent_node(OnnxGraph& graph, const OnnxRecurrence& layer,
                                       const std::string& x, std::string_view direction,
                                       bool last) {
  const std::size_t directions = direction == "bidirectional" ? 2 : 1;
  OnnxRecurrentArrays arrays;
  for (std::size_t i = 0; i < directions; ++i) onnx_take_direction(graph, layer, arrays);
  auto& [w, r, b] = arrays;
  const std::size_t rows = r.values.size() / directions / layer.units;
  w.shape = {directions, rows, w.values.size() / directions / rows};
  r.shape = {directions, rows, layer.units};
  b.shape = {directions, 2 * rows};
  std::vector<std::string> inputs = {graph.transposed(x, {1, 0, 2}), graph.weight(w),
                                     graph.weight(r)};
  if (layer.use_bias) inputs.push_back(graph.weight(b));
  const OnnxAttribute hidden = onnx_int("hidden_size", static_cast<std::int64_t>(layer.units));
  const OnnxAttribute way{"direction", {}, 0, OnnxAttribute::Kind::text, direction};
  const int output = last ? 1 : 0;
  std::vector<OnnxAttribute> attributes{hidden, way};
  if (layer.op == "GRU")
    attributes.push_back(onnx_int("linear_before_reset", layer.reset_after ? 1 : 0));
  onnx_add_activations(layer, directions, attributes);
  return graph.node(layer.op, inputs, attributes, output);
}

/// The same of one direction, where only some positions count: [batch x positions x units] or
/// [batch x units]. The operators know lengths alone and no masks. So the positions that count are
/// moved together, to where the recurrence begins, and each position then takes the output of the
/// last one that counts up to it; or zero, where there is none.
inline std::string onnx_masked_direction(OnnxGraph& graph, const OnnxRecurrence& layer,
                                         const std::string& x, bool backwards) {
  const auto positions = static_cast<std::int64_t>(layer.positions),
             units = static_cast<std::int64_t>(layer.units);
  const OnnxAttribute batched = onnx_int("batch_dims", 1);
  std::vector<float> numbers(layer.positions);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const std::size_t shape[] = {layer.positions};
  const std::string length = graph.number(static_cast<double>(layer.positions));
  const std::string keys = graph.node(
      backwards ? "Add" : "Sub",
      {graph.floats("positions", shape, numbers), graph.node("Mul", {graph.mask(), length})});
  const std::string order =
      graph.node("TopK", {keys, graph.constant("count", {positions})},
                 {onnx_int("axis", 1), onnx_int("largest", 0), onnx_int("sorted", 1)}, 1);
  const std::string together =
      graph.node("GatherND", {x, graph.reshaped(order, {-1, positions, 1})}, {batched});
  const std::string y = graph.transposed(
      onnx_recurrent_node(graph, layer, together, backwards ? "reverse" : "forward", false),
      {2, 0, 1, 3});
  const std::string with_zero = graph.node(
      "Pad", {graph.reshaped(y, {-1, positions, units}),
              graph.constant("pads", {0, backwards ? 0 : 1, 0, 0, backwards ? 1 : 0, 0})});
  std::string count = layer.return_sequences
                          ? graph.node("CumSum", {graph.mask(), graph.axis(1)},
                                       {onnx_int("reverse", backwards ? 1 : 0)})
                          : graph.node("ReduceSum", {graph.mask(), graph.constant("axes", {1})});
  if (backwards) count = graph.node("Sub", {length, count});
  const std::string last = graph.node("Cast", {count}, {onnx_int("to", onnx::type_int64)});
  const std::string outputs =
      graph.node("GatherND",
                 {with_zero, graph.reshaped(last, {-1, layer.return_sequences ? positions : 1, 1})},
                 {batched});
  return layer.return_sequences ? outputs : graph.reshaped(outputs, {-1, units});
}

inline std::string onnx_masked_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer) {
  const std::string x = graph.value().name;
  std::string y = onnx_masked_direction(graph, layer, x, layer.go_backwards);
  if (!layer.bidirectional) return y;
  std::string other = onnx_masked_direction(graph, layer, x, true);
  if (layer.return_sequences) {  // masked outputs are zero
    const std::string counts =
        graph.reshaped(graph.mask(), {-1, static_cast<std::int64_t>(layer.positions), 1});
    y = graph.node("Mul", {y, counts});
    other = graph.node("Mul", {other, counts});
  }
  if (layer.merge == "Concat") return graph.node("Concat", {y, other}, {onnx_int("axis", -1)});
  if (layer.merge == "ReduceProd") return graph.node("Mul", {y, other});
  return graph.node("Mul", {graph.node("Add", {y, other}), graph.number(0.5)});
}

inline std::string onnx_whole_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer) {
  const std::size_t directions = layer.bidirectional ? 2 : 1;
  std::string y = onnx_recurrent_node(graph, layer, graph.value().name,
                                      layer.bidirectional  ? "bidirectional"
                                      : layer.go_backwards ? "reverse"
                                                           : "forward",
                                      !layer.return_sequences);
  y = layer.return_sequences ? graph.transposed(y, {2, 0, 1, 3}) : graph.transposed(y, {1, 0, 2});
  if (layer.merge != "Concat" && layer.bidirectional)
    return graph.node(layer.merge, {y}, {{"axes", {-2}}, onnx_int("keepdims", 0)});
  std::vector<std::int64_t> shape = {-1};
  if (layer.return_sequences) shape.push_back(static_cast<std::int64_t>(layer.positions));
  shape.push_back(static_cast<std::int64_t>(directions * layer.units));
  return graph.reshaped(y, shape);
}

inline void onnx_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer) {
  graph.lay_out(false);
  std::string y = graph.mask().empty() ? onnx_whole_recurrence(graph, layer)
                                       : onnx_masked_recurrence(graph, layer);
  if (layer.return_sequences && layer.go_backwards) {  // in the order in which it goes
    std::vector<std::int64_t> backwards;
    for (std::size_t i = layer.positions; i-- > 0;)
      backwards.push_back(static_cast<std::int64_t>(i));
    y = graph.node("Gather", {y, graph.constant("backwards", backwards)}, {onnx_int("axis", 1)});
  }
  graph.value() = {.name = std::move(y), .rank = layer.return_sequences ? 2U : 1U};
  if (layer.factor != 1) onnx_rescale(graph, layer.factor, 0);
}

/// Heads and dimensions of an attention.
struct OnnxAttention {
  std::size_t heads, key_value_heads, key_dim, value_dim, queries, keys;
  bool use_bias, causal;
  std::size_t window;
  double rope_theta;
};

/// Queries and values: sequences, and which of their positions count (see OnnxGraph::mask).
void onnx_attention(OnnxGraph& graph, const OnnxAttention& size, const OnnxGraph::Value& queries,
                    const OnnxGraph::Value& values, const std::string& query_mask,
                    const std::string& value_mask);

inline std::string onnx_projected(OnnxGraph& graph, const std::string& x, std::size_t rows,
                                  bool use_bias) {
  ExportedArray kernel = graph.take(true);
  kernel.shape = {rows, kernel.values.size() / rows};
  std::string product = graph.node("MatMul", {x, graph.weight(kernel)});
  if (!use_bias) return product;
  ExportedArray bias = graph.take(true);
  bias.shape = {bias.values.size()};
  return graph.node("Add", {product, graph.weight(bias)});
}

/// 1 where a query sees a key, else 0, for scores [batch x heads x queries x keys]; empty: all see
/// all.
inline std::string onnx_visible_keys(OnnxGraph& graph, const OnnxAttention& size,
                                     const std::string& value_mask) {
  std::string causal, keys;
  if (size.causal) {
    std::vector<float> visible(size.queries * size.keys, 1);
    for (std::size_t t = 0; t < size.queries; ++t)
      for (std::size_t s = 0; s < size.keys; ++s)
        if (s > t || (size.window != 0 && s + size.window <= t)) visible[t * size.keys + s] = 0;
    const std::size_t shape[] = {size.queries, size.keys};
    causal = graph.floats("visible", shape, visible);
  }
  if (!value_mask.empty())
    keys = graph.reshaped(value_mask, {-1, 1, 1, static_cast<std::int64_t>(size.keys)});
  if (causal.empty() || keys.empty()) return causal.empty() ? keys : causal;
  return graph.node("Mul", {causal, keys});
}

/// Rotary positions of x [batch x heads x positions x features]: x cos + (x turned by 90°) sin.
inline std::string onnx_rotary(OnnxGraph& graph, const OnnxAttention& size, const std::string& x) {
  const std::size_t features = size.key_dim, half = features / 2, positions = size.queries;
  std::vector<double> table(kernels::rotary_table_size(features, positions));
  kernels::make_rotary_table(size.rope_theta, features, positions, table.data());
  std::vector<float> cosines(features * positions), sines(cosines.size()),
      turn(features * features);
  for (std::size_t f = 0; f < features; ++f) {
    for (std::size_t t = 0; t < positions; ++t) {
      const double* const row = table.data() + f % half * 2 * positions;
      cosines[t * features + f] = static_cast<float>(row[t]);
      sines[t * features + f] = static_cast<float>(row[positions + t]);
    }
    turn[(f + half) % features * features + f] = f < half ? -1.0F : 1.0F;
  }
  const std::size_t rows[] = {positions, features}, square[] = {features, features};
  return graph.node(
      "Add", {graph.node("Mul", {x, graph.floats("cosines", rows, cosines)}),
              graph.node("Mul", {graph.node("MatMul", {x, graph.floats("turn", square, turn)}),
                                 graph.floats("sines", rows, sines)})});
}

inline std::string onnx_sequence(OnnxGraph& graph, const OnnxGraph::Value& sequence) {
  graph.value() = sequence;
  graph.lay_out(false);
  return graph.value().name;
}

/// What each query sees of the values, [batch x heads x queries x value_dim], by the scores.
inline std::string onnx_seen(OnnxGraph& graph, const OnnxAttention& size, std::string scores,
                             const std::string& values, const std::string& query_mask,
                             const std::string& value_mask) {
  const std::string visible = onnx_visible_keys(graph, size, value_mask);
  if (!visible.empty())
    scores =
        graph.node("Add", {scores, graph.node("Mul", {graph.node("Sub", {visible, graph.number(1)}),
                                                      graph.number(1e9)})});
  std::string weights =
      graph.node("Softmax", {scores}, {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}});
  // A query that is masked, or whose keys all are, sees none.
  if (!value_mask.empty()) weights = graph.node("Mul", {weights, visible});
  if (!query_mask.empty())
    weights = graph.node(
        "Mul",
        {weights, graph.reshaped(query_mask, {-1, 1, static_cast<std::int64_t>(size.queries), 1})});
  return graph.node("MatMul", {weights, values});
}

/// Attention and AdditiveAttention. `keys`: if they are not the values.
inline void onnx_plain_attention(OnnxGraph& graph, const OnnxAttention& size, AttentionScore score,
                                 bool use_scale, const OnnxGraph::Value& queries,
                                 const OnnxGraph::Value& values, const std::string& query_mask,
                                 const std::string& value_mask,
                                 const OnnxGraph::Value* keys_alone = nullptr) {
  const auto width = static_cast<std::int64_t>(size.key_dim),
             value_width = static_cast<std::int64_t>(size.value_dim),
             rows = static_cast<std::int64_t>(size.queries),
             keys = static_cast<std::int64_t>(size.keys);
  const std::string q = onnx_sequence(graph, queries), v = onnx_sequence(graph, values),
                    k = keys_alone == nullptr ? v : onnx_sequence(graph, *keys_alone);
  const std::string by_head = graph.reshaped(v, {-1, 1, keys, value_width});
  const auto scaled = [&](const std::string& x) {
    return use_scale ? graph.node("Mul", {x, graph.weight(graph.take(true))}) : x;
  };
  std::string scores;
  if (score == AttentionScore::dot) {
    scores = scaled(graph.node(
        "MatMul",
        {graph.reshaped(q, {-1, 1, rows, width}),
         graph.transposed(keys_alone == nullptr ? by_head : graph.reshaped(k, {-1, 1, keys, width}),
                          {0, 1, 3, 2})}));
  } else {
    const bool is_additive = score == AttentionScore::additive;
    const std::string both = graph.node("Add", {graph.reshaped(q, {-1, 1, rows, 1, width}),
                                                graph.reshaped(k, {-1, 1, 1, keys, width})});
    const std::string fit = graph.node("Tanh", {is_additive ? both : scaled(both)});
    const std::size_t column[] = {size.key_dim, 1};
    const std::string sum = graph.node(
        "MatMul", {is_additive ? scaled(fit) : fit,
                   graph.floats("ones", column, std::vector<float>(size.key_dim, 1.0F))});
    scores = graph.reshaped(sum, {-1, 1, rows, keys});
    if (!is_additive) scores = graph.node("Mul", {scores, graph.weight(graph.take(true))});
  }
  graph.value() = {
      .name = graph.reshaped(onnx_seen(graph, size, scores, by_head, query_mask, value_mask),
                             {-1, rows, value_width}),
      .rank = 2};
}

inline void onnx_attention(OnnxGraph& graph, const OnnxAttention& size,
                           const OnnxGraph::Value& queries, const OnnxGraph::Value& values,
                           const std::string& query_mask, const std::string& value_mask) {
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  const std::string q = onnx_sequence(graph, queries), v = onnx_sequence(graph, values);
  /// [batch x positions x heads * features], with an axis for the heads
  const auto heads = [&](std::string x, std::size_t count, std::size_t positions,
                         std::size_t features, std::vector<std::int64_t> order) {
    x = graph.reshaped(x, {-1, as_int(positions), as_int(count), as_int(features)});
    if (count != size.heads) {  // each one for its group
      std::vector<std::int64_t> group;
      for (std::size_t head = 0; head < size.heads; ++head)
        group.push_back(as_int(head * count / size.heads));
      x = graph.node("Gather", {x, graph.constant("group", group)}, {onnx_int("axis", 2)});
    }
    return graph.transposed(x, std::move(order));
  };
  const auto rows = [&] {  // of the next kernel, [width x heads x features]
    return graph.next_trained().shape[0];
  };
  const std::string query =
      graph.node("Mul", {onnx_projected(graph, q, rows(), size.use_bias),
                         graph.number(1 / std::sqrt(static_cast<double>(size.key_dim)))});
  const std::string key = onnx_projected(graph, v, rows(), size.use_bias);
  const std::string value = onnx_projected(graph, v, rows(), size.use_bias);
  std::string scores;
  if (size.rope_theta == 0) {
    scores = graph.node("MatMul",
                        {heads(query, size.heads, size.queries, size.key_dim, {0, 2, 1, 3}),
                         heads(key, size.key_value_heads, size.keys, size.key_dim, {0, 2, 3, 1})});
  } else {
    const auto turned = [&](const std::string& x, std::size_t count) {
      return onnx_rotary(graph, size, heads(x, count, size.queries, size.key_dim, {0, 2, 1, 3}));
    };
    const std::string turned_query = turned(query, size.heads);
    scores = graph.node("MatMul", {turned_query, graph.transposed(turned(key, size.key_value_heads),
                                                                  {0, 1, 3, 2})});
  }
  const std::string seen =
      onnx_seen(graph, size, scores,
                heads(value, size.key_value_heads, size.keys, size.value_dim, {0, 2, 1, 3}),
                query_mask, value_mask);
  const std::string joined =
      graph.reshaped(graph.transposed(seen, {0, 2, 1, 3}),
                     {-1, as_int(size.queries), as_int(size.heads * size.value_dim)});
  graph.value() = {
      .name = onnx_projected(graph, joined, size.heads * size.value_dim, size.use_bias), .rank = 2};
}

template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options, class Queries,
          class Values>
constexpr OnnxAttention onnx_attention_size() {
  return {.heads = Heads,
          .key_value_heads = Options.num_key_value_heads == 0 ? Heads : Options.num_key_value_heads,
          .key_dim = KeyDim,
          .value_dim = Options.value_dim == 0 ? KeyDim : Options.value_dim,
          .queries = positions_of<Queries>,
          .keys = positions_of<Values>,
          .use_bias = Options.use_bias,
          .causal = Options.use_causal_mask,
          .window = Options.sliding_window,
          .rope_theta = Options.rope_theta};
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

template <class L>
inline constexpr bool holds_layers = requires { L::layer_count; };
template <class... Layers>
inline constexpr bool holds_layers<Recompute<Layers...>> = true;
template <class L>
inline constexpr bool holds_layers<Float32<L>> = holds_layers<L>;

/// A layer, as a container has it: of a sequence it is given all, or each token by itself.
template <class In, class L>
void write_layer(OnnxGraph& graph) {
  if constexpr (holds_layers<L>) {
    OnnxOperator<L>::template write<In>(graph);
  } else {
    const std::string mask = graph.mask();
    if constexpr (std::is_base_of_v<NoOnnxOperator, OnnxOperator<L>>) {
      OnnxOperator<L>::template write<In>(graph);
    } else if constexpr (is_sequence<In> && !SequenceLayer<L>) {
      graph.to_tokens(TokenOf<In>::extents);
      graph.set_positions(positions_of<In>);
      OnnxOperator<L>::template write<TokenOf<In>>(graph);
      graph.set_positions(0);
      graph.keep_tokens();
    } else {
      graph.to_sequences(In::extents);
      OnnxOperator<L>::template write<In>(graph);
    }
    // A mask ends at a layer that neither hands it on nor makes another.
    if (!keeps_mask<L> && graph.mask() == mask) graph.set_mask({});
  }
}

/// The layers one after the other.
template <class In, class First, class... Rest>
void write_layers(OnnxGraph& graph) {
  write_layer<In, First>(graph);
  if constexpr (sizeof...(Rest) > 0)
    write_layers<typename OutputShape<First, In>::Type, Rest...>(graph);
}
template <class... Layers>
struct OnnxOperator<Sequential<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    write_layers<In, Layers...>(graph);
  }
};
template <class... Layers>
struct OnnxOperator<Recompute<Layers...>> : OnnxOperator<Sequential<Layers...>> {};
template <class L>
struct OnnxOperator<Float32<L>> : OnnxOperator<L> {};
template <std::size_t Times, class L>
struct OnnxOperator<Repeat<Times, L>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    for (std::size_t i = 0; i < Times; ++i) write_layer<In, L>(graph);
  }
};

/// The layer, with its kernel as inference has it.
template <class L, SpectralNormalizationOptions Options>
struct OnnxOperator<SpectralNormalization<L, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    ExportedArray& kernel = graph.next_trained();
    std::vector<float> u = graph.take(false).values, v(kernel.values.size() / u.size());
    const float sigma =
        SpectralNorm<float>{v.size(), u.size(), kernel.values.data(), u.data(), v.data()}.value();
    if (sigma > 0)
      for (float& value : kernel.values) value /= sigma;
    OnnxOperator<L>::template write<In>(graph);
  }
};

template <class L>
struct OnnxOperator<TimeDistributed<L>> {
  /// (The steps go on as a batch of samples.)
  template <class In>
  static void write(OnnxGraph& graph) {
    using Steps = StepsOf<In>;
    const std::string mask = graph.mask();
    graph.set_mask({});
    graph.to_tokens(TokenOf<Steps>::extents);
    graph.to_sequences(TokenOf<Steps>::extents);
    write_layer<TokenOf<Steps>, L>(graph);
    graph.keep_tokens();
    graph.set_mask(mask);
  }
};

/// A layer beside others.
template <class In, class Branch>
void write_branch(OnnxGraph& graph, OnnxBranches& branches) {
  branches.begin();
  write_layer<In, Branch>(graph);
  graph.to_sequences(OutputShape<Branch, In>::Type::extents);
  branches.end();
}
template <class Merge>
void merge_branches(OnnxBranches& branches, std::size_t count) {
  if constexpr (std::is_same_v<Merge, Add>)
    branches.merge("Add", 1);
  else if constexpr (std::is_same_v<Merge, Average>)
    branches.merge("Add", 1.0 / static_cast<double>(count));
  else if constexpr (std::is_same_v<Merge, Multiply>)
    branches.merge("Mul", 1);
  else if constexpr (std::is_same_v<Merge, Subtract>)
    branches.merge("Sub", 1);
  else if constexpr (std::is_same_v<Merge, Maximum>)
    branches.merge("Max", 1);
  else if constexpr (std::is_same_v<Merge, Minimum>)
    branches.merge("Min", 1);
  else if constexpr (std::is_same_v<Merge, Concatenate>)
    branches.merge("Concat", 1);
  else if constexpr (std::is_same_v<Merge, Dot<>>)
    branches.dot(false);
  else if constexpr (std::is_same_v<Merge, Dot<DotOptions{.normalize = true}>>)
    branches.dot(true);
  else
    static_assert(!sizeof(Merge), "lockstep: export_onnx knows no ONNX operator for this merge");
}
template <class Merge, class... Branches>
struct OnnxOperator<Parallel<Merge, Branches...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxBranches branches(graph);
    (write_branch<In, Branches>(graph, branches), ...);
    merge_branches<Merge>(branches, sizeof...(Branches));
  }
};
template <class... Layers>
struct OnnxOperator<Residual<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    if constexpr (sizeof...(Layers) == 2 && (is_sequential<Layers> && ...))
      OnnxOperator<Parallel<Add, Layers...>>::template write<In>(graph);
    else
      OnnxOperator<Parallel<Add, Identity, Sequential<Layers...>>>::template write<In>(graph);
  }
};
template <class Merge, class L, class... Parts>
struct OnnxOperator<Shared<Merge, L, Parts...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    using Input = typename OutputShape<std::tuple_element_t<0, std::tuple<Parts...>>, In>::Type;
    OnnxBranches branches(graph);
    SharedCursors cursors = shared_cursors<L, Input>(graph);
    const auto write_use = [&]<class Part>(std::type_identity<Part>) {
      branches.begin();
      cursors.begin_part(graph);
      write_layer<In, Part>(graph);
      cursors.begin_layer(graph);
      write_layer<Input, L>(graph);
      graph.to_sequences(OutputShape<L, Input>::Type::extents);
      branches.end();
    };
    (write_use(std::type_identity<Parts>{}), ...);
    cursors.end(graph);
    merge_branches<Merge>(branches, sizeof...(Parts));
  }
};

/// Inputs of the graph by their names; the value is all of them side by side.
template <class... Named>
struct OnnxOperator<Inputs<Named...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    std::vector<std::string> flat;
    const auto add = [&]<class One>(std::type_identity<One>) {
      graph.add_input(std::string(One::name), One::Sample::extents);
      if (One::Sample::rank > 1) graph.reshape(Shape<One::Sample::size>::extents);
      flat.push_back(graph.value().name);
    };
    (add(std::type_identity<Named>{}), ...);
    graph.set_value(
        {.name = graph.node("Concat", flat, {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}})});
  }
};
template <Name Of, class... Layers>
struct OnnxOperator<NamedOutput<Of, Layers...>> : OnnxOperator<Sequential<Layers...>> {};
template <class... Named>
struct OnnxOperator<Outputs<Named...>> : OnnxOperator<Parallel<Concatenate, Named...>> {};

/// A model: its layers, with its inputs and outputs.
template <class Net>
struct OnnxModel {
  template <class In>
  static void write(OnnxGraph& graph, const std::string& input, const std::string& output) {
    graph.add_input(input, In::extents);
    OnnxOperator<Net>::template write<In>(graph);
    using Out = typename Net::template Output<In>;
    graph.to_sequences(Out::extents);
    graph.add_output(output, Out::extents);
  }
};
template <class>
inline constexpr bool is_inputs = false;
template <class... Named>
inline constexpr bool is_inputs<Inputs<Named...>> = true;

/// What ends a model: a layer, or outputs by their names.
template <class L>
struct OnnxEnd {
  template <class In>
  static void write(OnnxGraph& graph, const std::string& output) {
    using Out = typename OutputShape<L, In>::Type;
    write_layer<In, L>(graph);
    graph.to_sequences(Out::extents);
    graph.add_output(output, Out::extents);
  }
};
template <class... Named>
struct OnnxEnd<Outputs<Named...>> {
  template <class In>
  static void write(OnnxGraph& graph, const std::string&) {
    OnnxBranches branches(graph);
    const auto add = [&]<class One>(std::type_identity<One>) {
      using Out = typename OutputShape<One, In>::Type;
      branches.begin();
      write_layer<In, One>(graph);
      graph.to_sequences(Out::extents);
      graph.add_output(std::string(One::name), Out::extents);
    };
    (add(std::type_identity<Named>{}), ...);
  }
};
template <class... Layers>
struct OnnxModel<Sequential<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph, const std::string& input, const std::string& output) {
    if constexpr (!(is_inputs<Layers> || ...)) graph.add_input(input, In::extents);
    write_from<In, Layers...>(graph, output);
  }

 private:
  template <class In, class First, class... Rest>
  static void write_from(OnnxGraph& graph, const std::string& output) {
    if constexpr (sizeof...(Rest) == 0) {
      OnnxEnd<First>::template write<In>(graph, output);
    } else {
      write_layer<In, First>(graph);
      write_from<typename OutputShape<First, In>::Type, Rest...>(graph, output);
    }
  }
};

/// Writes the branches, and then what looks from one at the others:
/// attend(queries, values, query_mask, value_mask), and &keys if they have a branch.
template <class In, class QueryBranch, class ValueBranch, class... KeyBranch, class Attend>
void onnx_look(OnnxGraph& graph, const Attend& attend) {
  const OnnxGraph::Value input = graph.value();
  const std::string mask = graph.mask();
  const auto written = [&]<class Branch>(std::type_identity<Branch>) {
    graph.set_value(input);
    graph.set_mask(mask);
    write_layer<In, Branch>(graph);
    graph.to_sequences(OutputShape<Branch, In>::Type::extents);
    return graph.value();
  };
  const OnnxGraph::Value queries = written(std::type_identity<QueryBranch>{});
  const std::string query_mask = graph.mask();
  const OnnxGraph::Value values = written(std::type_identity<ValueBranch>{});
  const std::string value_mask = graph.mask();
  const std::array<OnnxGraph::Value, sizeof...(KeyBranch)> keys{
      written(std::type_identity<KeyBranch>{})...};
  if constexpr (sizeof...(KeyBranch) == 0)
    attend(queries, values, query_mask, value_mask);
  else
    attend(queries, values, query_mask, value_mask, keys.data());
  graph.set_mask(query_mask);
}
template <std::size_t Heads, std::size_t KeyDim, class QueryBranch, class ValueBranch,
          MultiHeadAttentionOptions Options>
struct OnnxOperator<CrossAttention<Heads, KeyDim, QueryBranch, ValueBranch, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    using Queries = typename OutputShape<QueryBranch, In>::Type;
    using Values = typename OutputShape<ValueBranch, In>::Type;
    onnx_look<In, QueryBranch, ValueBranch>(graph, [&](const auto&... of_branches) {
      onnx_attention(graph, onnx_attention_size<Heads, KeyDim, Options, Queries, Values>(),
                     of_branches...);
    });
  }
};
template <PlainLookOptions Options, class QueryBranch, class ValueBranch, class... KeyBranch>
struct OnnxPlainAttention {
  template <class In>
  static void write(OnnxGraph& graph) {
    using Queries = typename OutputShape<QueryBranch, In>::Type;
    using Values = typename OutputShape<ValueBranch, In>::Type;
    constexpr std::size_t width = Queries::Token::size;
    constexpr MultiHeadAttentionOptions options{.value_dim = Values::Token::size,
                                                .use_causal_mask = Options.causal};
    onnx_look<In, QueryBranch, ValueBranch, KeyBranch...>(graph, [&](const auto&... of_branches) {
      onnx_plain_attention(graph, onnx_attention_size<1, width, options, Queries, Values>(),
                           Options.score, Options.use_scale, of_branches...);
    });
  }
};
template <PlainLookOptions Options, class QueryBranch, class ValueBranch, class KeyBranch>
struct OnnxPlainAttention<Options, QueryBranch, ValueAndKey<ValueBranch, KeyBranch>>
    : OnnxPlainAttention<Options, QueryBranch, ValueBranch, KeyBranch> {};
template <class QueryBranch, class ValueBranch, AttentionOptions Options>
struct OnnxOperator<Attention<QueryBranch, ValueBranch, Options>>
    : OnnxPlainAttention<look_options(Options), QueryBranch, ValueBranch> {};
template <class QueryBranch, class ValueBranch, AdditiveAttentionOptions Options>
struct OnnxOperator<AdditiveAttention<QueryBranch, ValueBranch, Options>>
    : OnnxPlainAttention<look_options(Options), QueryBranch, ValueBranch> {};

template <class EmbeddingLayer, class... Layers>
struct OnnxOperator<TiedHead<EmbeddingLayer, Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    using Tokens = typename EmbeddingLayer::template Output<In>;
    const ExportedArray& table = OnnxOperator<EmbeddingLayer>::write_table(graph);
    write_layers<Tokens, Layers...>(graph);
    graph.to_sequences(Tokens::extents);
    onnx_tied_logits(graph, table);
  }
};

template <class L>
struct OnnxOperator<Frozen<L>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t trained = variables_of<L, In>().size(),
                          others = state_variables_of<L, In>().size();
    const auto before = graph.freeze(trained);
    write_layer<In, L>(graph);
    graph.unfreeze(before, trained + others);
  }
};

}}}  // namespace lockstep::detail
