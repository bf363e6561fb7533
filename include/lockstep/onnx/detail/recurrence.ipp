#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/onnx/detail/functions.hpp"
#include "lockstep/onnx/detail/recurrence.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The kernels and biases of one direction or of both.
struct OnnxRecurrentArrays {
  OnnxArray w, r, b;
};

/// [inputs x gates * units] becomes [gates * units x inputs], the gates in another order.
LOCKSTEP_INLINE void onnx_append_gates(const OnnxArray& from, std::size_t units,
                                       std::span<const std::size_t> order, std::size_t begin,
                                       std::size_t inputs, std::vector<float>& to) {
  for (const std::size_t gate : order)
    for (std::size_t unit = 0; unit < units; ++unit)
      for (std::size_t input = 0; input < inputs; ++input)
        to.push_back(from.values[begin + input * order.size() * units + gate * units + unit]);
}

LOCKSTEP_INLINE void onnx_take_direction(OnnxGraph& graph, const OnnxRecurrence& layer,
                                         OnnxRecurrentArrays& to) {
  // ONNX has the gates of LSTM in the order input, output, forget, cell.
  static constexpr std::size_t lstm[] = {0, 3, 1, 2}, gru[] = {0, 1, 2}, rnn[] = {0};
  const std::span<const std::size_t> order = layer.op == "LSTM" ? std::span<const std::size_t>(lstm)
                                             : layer.op == "GRU" ? std::span<const std::size_t>(gru)
                                                                 : rnn;
  const OnnxArray& kernel = graph.take(true);
  if (to.w.name.empty()) to.w.name = kernel.name;
  onnx_append_gates(kernel, layer.units, order, 0, kernel.shape[0], to.w.values);
  const OnnxArray& recurrent = graph.take(true);
  if (to.r.name.empty()) to.r.name = recurrent.name;
  onnx_append_gates(recurrent, layer.units, order, 0, layer.units, to.r.values);
  if (!layer.use_bias) return;
  const OnnxArray& bias = graph.take(true);
  if (to.b.name.empty()) to.b.name = bias.name;
  const std::size_t rows = order.size() * layer.units;
  onnx_append_gates(bias, layer.units, order, 0, 1, to.b.values);
  if (bias.shape.size() == 2)
    onnx_append_gates(bias, layer.units, order, rows, 1, to.b.values);
  else
    to.b.values.resize(to.b.values.size() + rows, 0);
}

/// Its activation functions, unless they are the operator's own.
LOCKSTEP_INLINE void onnx_add_activations(const OnnxRecurrence& layer, std::size_t directions,
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
LOCKSTEP_INLINE std::string onnx_recurrent_node(OnnxGraph& graph, const OnnxRecurrence& layer,
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
LOCKSTEP_INLINE std::string onnx_masked_direction(OnnxGraph& graph, const OnnxRecurrence& layer,
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

LOCKSTEP_INLINE std::string onnx_masked_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer) {
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

LOCKSTEP_INLINE std::string onnx_whole_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer) {
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

LOCKSTEP_INLINE void onnx_recurrence(OnnxGraph& graph, const OnnxRecurrence& layer) {
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
