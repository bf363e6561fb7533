#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "lockstep/core/text.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

namespace onnx {
// enum TensorProto.DataType, enum AttributeProto.AttributeType
inline constexpr std::uint64_t type_float = 1, type_int64 = 7;
inline constexpr std::uint64_t attribute_float = 1, attribute_int = 2, attribute_string = 3,
                               attribute_ints = 7;
}  // namespace onnx

/// A ValueInfoProto: floats [batch x shape].
LOCKSTEP_INLINE ProtoWriter onnx_value_info(const std::string& name,
                                            std::span<const std::size_t> sample_shape) {
  ProtoWriter shape, batch, tensor, type, info;
  shape.message(1, batch.text(2, "batch"));
  for (const std::size_t extent : sample_shape) {
    ProtoWriter dimension;
    shape.message(1, dimension.varint(1, extent));
  }
  tensor.varint(1, onnx::type_float).message(2, shape);
  return info.text(1, name).message(2, type.message(1, tensor));
}

LOCKSTEP_INLINE OnnxGraph::OnnxGraph(std::string input, std::span<const std::size_t> sample_shape,
                                     std::vector<OnnxArray> trained, std::vector<OnnxArray> state)
    : value_{.name = input, .rank = sample_shape.size()},
      input_(std::move(input)),
      input_shape_(sample_shape.begin(), sample_shape.end()),
      trained_(std::move(trained)),
      state_(std::move(state)) {}

LOCKSTEP_INLINE const OnnxArray& OnnxGraph::take(bool trained) {
  if (trained && !is_frozen_) return trained_.at(next_trained_++);
  return trained ? state_.at(next_trained_++) : state_.at(next_state_++);
}

LOCKSTEP_INLINE OnnxGraph::Cursors OnnxGraph::freeze(std::size_t trained_count) {
  const Cursors before{next_trained_, next_state_, is_frozen_};
  if (!is_frozen_) {
    next_trained_ = next_state_;
    next_state_ += trained_count;
    is_frozen_ = true;
  }
  return before;
}

LOCKSTEP_INLINE void OnnxGraph::unfreeze(const Cursors& before, std::size_t state_count) {
  if (before.is_frozen) return;
  next_trained_ = before.trained;
  next_state_ = before.state + state_count;
  is_frozen_ = false;
}

LOCKSTEP_INLINE std::string OnnxGraph::add_initializer(std::string name,
                                                       std::span<const std::size_t> shape,
                                                       std::span<const float> values) {
  ProtoWriter tensor, numbers;
  for (const std::size_t extent : shape) tensor.varint(1, extent);
  for (const float value : values) numbers.fixed<4>(std::bit_cast<std::uint32_t>(value));
  tensor.varint(2, onnx::type_float).text(8, name).text(9, numbers.bytes());
  graph_.message(5, tensor);
  return name;
}

LOCKSTEP_INLINE std::string OnnxGraph::weight(const OnnxArray& array) {
  return add_initializer(array.name, array.shape, array.values);
}

LOCKSTEP_INLINE std::string OnnxGraph::constant(std::string_view what,
                                                const std::vector<std::int64_t>& numbers) {
  std::string name = concat({what, "_", constants_++});
  ProtoWriter tensor, values;
  for (const std::int64_t value : numbers) values.fixed<8>(static_cast<std::uint64_t>(value));
  tensor.varint(1, numbers.size())
      .varint(2, onnx::type_int64)
      .text(8, name)
      .text(9, values.bytes());
  graph_.message(5, tensor);
  return name;
}

LOCKSTEP_INLINE std::string OnnxGraph::number(double number) {
  const auto value = static_cast<float>(number);
  return add_initializer(concat({"number_", constants_++}), {}, {&value, 1});
}

LOCKSTEP_INLINE std::string OnnxGraph::filled(std::string_view what, std::size_t size,
                                              float number) {
  const std::vector<float> values(size, number);
  const std::size_t shape[] = {size};
  return add_initializer(concat({what, "_", constants_++}), shape, values);
}

LOCKSTEP_INLINE std::string OnnxGraph::node(std::string_view op,
                                            const std::vector<std::string>& inputs,
                                            std::initializer_list<OnnxAttribute> attributes,
                                            int which) {
  std::string output = concat({"value_", nodes_++});
  ProtoWriter written;
  for (const std::string& input : inputs) written.text(1, input);
  for (int i = 0; i < which; ++i) written.text(2, "");  // an output that is not used
  written.text(2, output).text(3, concat({op, "_", nodes_ - 1})).text(4, op);
  for (const OnnxAttribute& attribute : attributes) {
    ProtoWriter field;
    field.text(1, attribute.name);
    if (attribute.kind == OnnxAttribute::Kind::number) {
      field.number(2, attribute.number).varint(20, onnx::attribute_float);
    } else if (attribute.kind == OnnxAttribute::Kind::text) {
      field.text(4, attribute.text).varint(20, onnx::attribute_string);
    } else if (attribute.kind == OnnxAttribute::Kind::one_int) {
      field.varint(3, static_cast<std::uint64_t>(attribute.ints.at(0)))
          .varint(20, onnx::attribute_int);
    } else {
      for (const std::int64_t value : attribute.ints)
        field.varint(8, static_cast<std::uint64_t>(value));
      field.varint(20, onnx::attribute_ints);
    }
    written.message(5, field);
  }
  graph_.message(1, written);
  return output;
}

LOCKSTEP_INLINE std::string OnnxGraph::transposed(const std::string& input,
                                                  std::vector<std::int64_t> order) {
  return node("Transpose", {input}, {{"perm", std::move(order)}});
}

LOCKSTEP_INLINE std::string OnnxGraph::reshaped(const std::string& input,
                                                const std::vector<std::int64_t>& shape) {
  return node("Reshape", {input, constant("shape", shape)});
}

LOCKSTEP_INLINE void OnnxGraph::lay_out(bool channels_first) {
  if ((value_.rank != 3 && value_.rank != 2) || value_.channels_first == channels_first) return;
  using Order = std::vector<std::int64_t>;
  value_.name = transposed(value_.name, value_.rank == 2 ? Order{0, 2, 1}
                                        : channels_first ? Order{0, 3, 1, 2}
                                                         : Order{0, 2, 3, 1});
  value_.channels_first = channels_first;
}

LOCKSTEP_INLINE void OnnxGraph::to_tokens(std::span<const std::size_t> shape) {
  if (!value_.is_tokens) reshape(shape);
  value_.is_tokens = true;
}

LOCKSTEP_INLINE void OnnxGraph::to_sequences(std::span<const std::size_t> shape) {
  if (value_.is_tokens) reshape(shape);
}

/// Of height and width, or of the one extent of a sequence.
LOCKSTEP_INLINE std::vector<std::int64_t> onnx_ints(const OnnxWindow& window,
                                                    const std::size_t (&numbers)[2]) {
  std::vector<std::int64_t> ints;
  for (std::size_t i = 0; i < window.rank; ++i)
    ints.push_back(static_cast<std::int64_t>(numbers[i]));
  return ints;
}
LOCKSTEP_INLINE std::vector<std::int64_t> onnx_pads(const OnnxWindow& window) {
  std::vector<std::int64_t> pads = onnx_ints(window, window.begin);
  for (const std::int64_t end : onnx_ints(window, window.end)) pads.push_back(end);
  return pads;
}

LOCKSTEP_INLINE void OnnxGraph::dense(bool use_bias) {
  std::vector<std::string> inputs = {value_.name, weight(take(true))};
  if (use_bias) inputs.push_back(weight(take(true)));
  value_ = {.name = node("Gemm", inputs), .rank = 1};
}

LOCKSTEP_INLINE void OnnxGraph::convolution(const OnnxWindow& window, std::size_t groups,
                                            bool use_bias, bool is_depthwise) {
  lay_out(true);
  // [height x width x channels x filters] becomes [filters x channels x height x width]; where each
  // channel has filters of its own, [channels * filters x 1 x height x width]. Of a sequence, there
  // is one extent for both.
  const OnnxArray& kernel = take(true);
  const std::size_t rank = window.rank, channels = kernel.shape[rank],
                    filters = kernel.shape[rank + 1],
                    pixels = rank == 1 ? kernel.shape[0] : kernel.shape[0] * kernel.shape[1];
  OnnxArray turned{
      .name = kernel.name,
      .shape = {is_depthwise ? channels * filters : filters, is_depthwise ? 1 : channels},
      .values = std::vector<float>(kernel.values.size())};
  turned.shape.insert(turned.shape.end(), kernel.shape.begin(),
                      kernel.shape.begin() + static_cast<std::ptrdiff_t>(rank));
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t f = 0; f < filters; ++f) {
        const std::size_t row = is_depthwise ? c * filters + f : f * channels + c;
        turned.values[row * pixels + p] = kernel.values[(p * channels + c) * filters + f];
      }
  std::vector<std::string> inputs = {value_.name, weight(turned)};
  if (use_bias) inputs.push_back(weight(take(true)));
  const auto both = [&](const std::size_t(&numbers)[2]) { return onnx_ints(window, numbers); };
  const auto group = static_cast<std::int64_t>(is_depthwise ? channels : groups);
  value_.name = node("Conv", inputs,
                     {{"kernel_shape", both(window.kernel)},
                      {"strides", both(window.stride)},
                      {"dilations", both(window.dilation)},
                      {"pads", onnx_pads(window)},
                      {"group", {group}, 0, OnnxAttribute::Kind::one_int}});
}

LOCKSTEP_INLINE void OnnxGraph::batch_normalization(std::size_t channels, bool scale, bool center,
                                                    double epsilon) {
  lay_out(true);
  const std::string gamma = scale ? weight(take(true)) : filled("ones", channels, 1);
  const std::string beta = center ? weight(take(true)) : filled("zeros", channels, 0);
  const std::string mean = weight(take(false)), variance = weight(take(false));
  value_.name = node("BatchNormalization", {value_.name, gamma, beta, mean, variance},
                     {{"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
}

LOCKSTEP_INLINE void OnnxGraph::layer_normalization(std::size_t channels, bool scale, bool center,
                                                    double epsilon) {
  lay_out(false);
  std::vector<std::string> inputs = {value_.name};
  inputs.push_back(scale ? weight(take(true)) : filled("ones", channels, 1));
  if (center) inputs.push_back(weight(take(true)));
  value_.name = node("LayerNormalization", inputs,
                     {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int},
                      {"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
}

LOCKSTEP_INLINE void OnnxGraph::pool(std::string_view op, const OnnxWindow& window) {
  lay_out(true);
  value_.name = node(op, {value_.name},
                     {{"kernel_shape", onnx_ints(window, window.kernel)},
                      {"strides", onnx_ints(window, window.stride)},
                      {"pads", onnx_pads(window)}});
}

LOCKSTEP_INLINE void OnnxGraph::global_pool(std::string_view op) {
  lay_out(true);
  const std::string pooled = node(op, {value_.name});
  value_ = {.name = node("Flatten", {pooled}), .rank = 1};
}

LOCKSTEP_INLINE void OnnxGraph::pad(std::size_t top, std::size_t bottom, std::size_t left,
                                    std::size_t right) {
  lay_out(true);
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  const std::string pads =
      constant("pads", {0, 0, as_int(top), as_int(left), 0, 0, as_int(bottom), as_int(right)});
  value_.name = node("Pad", {value_.name, pads});
}

LOCKSTEP_INLINE void OnnxGraph::reshape(std::span<const std::size_t> sample_shape) {
  lay_out(false);
  std::vector<std::int64_t> shape = {-1};
  for (const std::size_t extent : sample_shape) shape.push_back(static_cast<std::int64_t>(extent));
  value_ = {.name = node("Reshape", {value_.name, constant("shape", shape)}),
            .rank = sample_shape.size()};
}

LOCKSTEP_INLINE void OnnxGraph::softmax() {
  lay_out(false);
  value_.name = node("Softmax", {value_.name}, {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}});
}

LOCKSTEP_INLINE void OnnxGraph::rescale(double scale, double offset) {
  value_.name = node("Mul", {value_.name, number(scale)});
  if (offset != 0) value_.name = node("Add", {value_.name, number(offset)});
}

LOCKSTEP_INLINE void OnnxGraph::apply(std::string_view op,
                                      std::initializer_list<OnnxAttribute> attributes) {
  value_.name = node(op, {value_.name}, attributes);
}

LOCKSTEP_INLINE void OnnxGraph::silu() {
  value_.name = node("Mul", {value_.name, node("Sigmoid", {value_.name})});
}

LOCKSTEP_INLINE void OnnxGraph::mish() {
  value_.name = node("Mul", {value_.name, node("Tanh", {node("Softplus", {value_.name})})});
}

LOCKSTEP_INLINE void OnnxGraph::leaky_relu(double slope) {
  apply("LeakyRelu", {{"alpha", {}, static_cast<float>(slope), OnnxAttribute::Kind::number}});
}

LOCKSTEP_INLINE void OnnxGraph::relu6() {
  value_.name = node("Clip", {value_.name, number(0), number(6)});
}

LOCKSTEP_INLINE void OnnxGraph::normalization(bool invert) {
  lay_out(false);
  const OnnxArray& mean = take(false);
  OnnxArray deviation = take(false);
  for (float& value : deviation.values)
    value = static_cast<float>(std::max(std::sqrt(static_cast<double>(value)), 1e-7));
  const std::string offset = weight(mean), factor = weight(deviation);
  value_.name = invert ? node("Add", {node("Mul", {value_.name, factor}), offset})
                       : node("Div", {node("Sub", {value_.name, offset}), factor});
}

LOCKSTEP_INLINE void OnnxGraph::rms_normalization(double epsilon) {
  lay_out(false);
  const std::string mean =
      node("ReduceMean", {node("Mul", {value_.name, value_.name})}, {{"axes", {-1}}});
  const std::string root = node("Sqrt", {node("Add", {mean, number(epsilon)})});
  value_.name = node("Mul", {node("Div", {value_.name, root}), weight(take(true))});
}

// --- sequences ---

LOCKSTEP_INLINE void OnnxGraph::pad_positions(std::size_t left, std::size_t right) {
  lay_out(false);
  value_.name =
      node("Pad", {value_.name, constant("pads", {0, static_cast<std::int64_t>(left), 0, 0,
                                                  static_cast<std::int64_t>(right), 0})});
}

LOCKSTEP_INLINE void OnnxGraph::slice(std::span<const std::size_t> begin,
                                      std::span<const std::size_t> end) {
  lay_out(false);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < begin.size(); ++i) axes.push_back(static_cast<std::int64_t>(i + 1));
  const std::string first = constant("begin", {begin.begin(), begin.end()});
  const std::string last = constant("end", {end.begin(), end.end()});
  value_.name = node("Slice", {value_.name, first, last, constant("axes", axes)});
}

LOCKSTEP_INLINE void OnnxGraph::permute(std::span<const std::size_t> dims) {
  lay_out(false);
  std::vector<std::int64_t> order = {0};
  for (const std::size_t dim : dims) order.push_back(static_cast<std::int64_t>(dim));
  value_.name = transposed(value_.name, std::move(order));
}

LOCKSTEP_INLINE void OnnxGraph::up_sampling(std::span<const std::size_t> factors, bool bilinear) {
  lay_out(true);
  std::vector<float> scales = {1, 1};
  for (const std::size_t factor : factors) scales.push_back(static_cast<float>(factor));
  const std::size_t shape[] = {scales.size()};
  const std::string scale = add_initializer(concat({"scales_", constants_++}), shape, scales);
  const auto text = [](std::string_view name, std::string_view value) {
    return OnnxAttribute{name, {}, 0, OnnxAttribute::Kind::text, value};
  };
  value_.name =
      node("Resize", {value_.name, "", scale},
           {text("mode", bilinear ? "linear" : "nearest"), text("nearest_mode", "floor"),
            text("coordinate_transformation_mode", bilinear ? "half_pixel" : "asymmetric")});
}

LOCKSTEP_INLINE void OnnxGraph::repeat_vector(std::size_t count, std::size_t width) {
  const std::string token = reshaped(value_.name, {-1, 1, static_cast<std::int64_t>(width)});
  const std::string shape = constant("shape", {1, static_cast<std::int64_t>(count), 1});
  value_ = {.name = node("Expand", {token, shape}), .rank = 2};
}

LOCKSTEP_INLINE std::string OnnxGraph::embedding() {
  std::string table = weight(take(true));
  const std::string ids = node(
      "Cast", {value_.name},
      {{"to", {static_cast<std::int64_t>(onnx::type_int64)}, 0, OnnxAttribute::Kind::one_int}});
  value_ = {.name = node("Gather", {table, ids}), .rank = 2};
  return table;
}

LOCKSTEP_INLINE void OnnxGraph::position_embedding(std::size_t positions) {
  lay_out(false);
  OnnxArray rows = take(true);
  rows.values.resize(positions * rows.shape[1]);
  rows.shape[0] = positions;
  value_.name = node("Add", {value_.name, weight(rows)});
}

LOCKSTEP_INLINE void OnnxGraph::tied_logits(const std::string& table) {
  lay_out(false);
  value_.name = node("MatMul", {value_.name, transposed(table, {1, 0})});
}

LOCKSTEP_INLINE std::string OnnxGraph::projected(const std::string& x, std::size_t rows,
                                                 bool use_bias) {
  OnnxArray kernel = take(true);
  kernel.shape = {rows, kernel.values.size() / rows};
  std::string product = node("MatMul", {x, weight(kernel)});
  if (!use_bias) return product;
  OnnxArray bias = take(true);
  bias.shape = {bias.values.size()};
  return node("Add", {product, weight(bias)});
}

LOCKSTEP_INLINE void OnnxGraph::attention(const OnnxAttention& size, const Value& queries,
                                          const Value& values) {
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  value_ = queries;
  lay_out(false);
  const std::string q = value_.name;
  value_ = values;
  lay_out(false);
  const std::string v = value_.name;
  /// [batch x positions x heads * features], with an axis for the heads
  const auto heads = [&](const std::string& x, std::size_t positions, std::size_t features,
                         std::vector<std::int64_t> order) {
    return transposed(reshaped(x, {-1, as_int(positions), as_int(size.heads), as_int(features)}),
                      std::move(order));
  };
  const auto rows = [&] {  // of the next kernel, [width x heads x features]
    return (is_frozen_ ? state_ : trained_).at(next_trained_).shape[0];
  };
  const std::string query = node("Mul", {projected(q, rows(), size.use_bias),
                                         number(1 / std::sqrt(static_cast<double>(size.key_dim)))});
  const std::string key = projected(v, rows(), size.use_bias);
  const std::string value = projected(v, rows(), size.use_bias);
  std::string scores = node("MatMul", {heads(query, size.queries, size.key_dim, {0, 2, 1, 3}),
                                       heads(key, size.keys, size.key_dim, {0, 2, 3, 1})});
  if (size.causal) {
    std::vector<float> mask(size.queries * size.keys, 0);
    for (std::size_t t = 0; t < size.queries; ++t)
      for (std::size_t s = t + 1; s < size.keys; ++s) mask[t * size.keys + s] = -1e9F;
    const std::size_t shape[] = {size.queries, size.keys};
    scores = node("Add", {scores, add_initializer(concat({"mask_", constants_++}), shape, mask)});
  }
  const std::string weights =
      node("Softmax", {scores}, {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}});
  const std::string seen =
      node("MatMul", {weights, heads(value, size.keys, size.value_dim, {0, 2, 1, 3})});
  const std::string joined =
      reshaped(transposed(seen, {0, 2, 1, 3}),
               {-1, as_int(size.queries), as_int(size.heads * size.value_dim)});
  value_ = {.name = projected(joined, size.heads * size.value_dim, size.use_bias), .rank = 2};
}

/// [inputs x gates * units] becomes [gates * units x inputs], the gates in another order.
LOCKSTEP_INLINE void append_gates(const OnnxArray& from, std::size_t units,
                                  std::span<const std::size_t> order, std::size_t begin,
                                  std::size_t inputs, std::vector<float>& to) {
  for (const std::size_t gate : order)
    for (std::size_t unit = 0; unit < units; ++unit)
      for (std::size_t input = 0; input < inputs; ++input)
        to.push_back(from.values[begin + input * order.size() * units + gate * units + unit]);
}

LOCKSTEP_INLINE void OnnxGraph::take_direction(const OnnxRecurrence& layer, OnnxArray& w,
                                               OnnxArray& r, OnnxArray& b) {
  // ONNX has the gates of LSTM in the order input, output, forget, cell.
  static constexpr std::size_t lstm[] = {0, 3, 1, 2}, gru[] = {0, 1, 2}, rnn[] = {0};
  const std::span<const std::size_t> order = layer.op == "LSTM" ? std::span<const std::size_t>(lstm)
                                             : layer.op == "GRU" ? std::span<const std::size_t>(gru)
                                                                 : rnn;
  const OnnxArray& kernel = take(true);
  if (w.name.empty()) w.name = kernel.name;
  append_gates(kernel, layer.units, order, 0, kernel.shape[0], w.values);
  const OnnxArray& recurrent = take(true);
  if (r.name.empty()) r.name = recurrent.name;
  append_gates(recurrent, layer.units, order, 0, layer.units, r.values);
  if (!layer.use_bias) return;
  const OnnxArray& bias = take(true);
  if (b.name.empty()) b.name = bias.name;
  const std::size_t rows = order.size() * layer.units;
  append_gates(bias, layer.units, order, 0, 1, b.values);
  if (bias.shape.size() == 2)
    append_gates(bias, layer.units, order, rows, 1, b.values);
  else
    b.values.resize(b.values.size() + rows, 0);
}

LOCKSTEP_INLINE void OnnxGraph::recurrence(const OnnxRecurrence& layer) {
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  const std::size_t directions = layer.bidirectional ? 2 : 1;
  lay_out(false);
  OnnxArray w, r, b;
  for (std::size_t i = 0; i < directions; ++i) take_direction(layer, w, r, b);
  const std::size_t rows = r.values.size() / directions / layer.units;
  w.shape = {directions, rows, w.values.size() / directions / rows};
  r.shape = {directions, rows, layer.units};
  b.shape = {directions, 2 * rows};
  std::vector<std::string> inputs = {transposed(value_.name, {1, 0, 2}), weight(w), weight(r)};
  if (layer.use_bias) inputs.push_back(weight(b));
  const OnnxAttribute hidden{"hidden_size", {as_int(layer.units)}, 0, OnnxAttribute::Kind::one_int};
  const OnnxAttribute direction{"direction",
                                {},
                                0,
                                OnnxAttribute::Kind::text,
                                layer.bidirectional  ? "bidirectional"
                                : layer.go_backwards ? "reverse"
                                                     : "forward"};
  const int output = layer.return_sequences ? 0 : 1;
  std::string y = layer.op == "GRU" ? node(layer.op, inputs,
                                           {hidden,
                                            direction,
                                            {"linear_before_reset",
                                             {layer.reset_after ? 1 : 0},
                                             0,
                                             OnnxAttribute::Kind::one_int}},
                                           output)
                                    : node(layer.op, inputs, {hidden, direction}, output);
  // [positions x directions x batch x units], or [directions x batch x units] of the last ones
  y = layer.return_sequences ? transposed(y, {2, 0, 1, 3}) : transposed(y, {1, 0, 2});
  std::vector<std::int64_t> shape = {-1};
  if (layer.return_sequences) shape.push_back(as_int(layer.positions));
  if (layer.merge == "Concat" || !layer.bidirectional) {
    shape.push_back(as_int(directions * layer.units));
    y = reshaped(y, shape);
  } else {
    y = node(layer.merge, {y},
             {{"axes", {-2}}, {"keepdims", {0}, 0, OnnxAttribute::Kind::one_int}});
  }
  if (layer.return_sequences && layer.go_backwards) {  // in the order in which it goes
    std::vector<std::int64_t> backwards;
    for (std::size_t i = layer.positions; i-- > 0;) backwards.push_back(as_int(i));
    y = node("Gather", {y, constant("backwards", backwards)},
             {{"axis", {1}, 0, OnnxAttribute::Kind::one_int}});
  }
  value_ = {.name = std::move(y), .rank = layer.return_sequences ? 2U : 1U};
  if (layer.factor != 1) rescale(layer.factor, 0);
}

// --- functions of several operators ---

/// x / 2 (1 + erf(x / sqrt(2)))
LOCKSTEP_INLINE void OnnxGraph::gelu() {
  const std::string inner =
      node("Erf", {node("Mul", {value_.name, number(1 / std::numbers::sqrt2)})});
  const std::string half = node("Mul", {value_.name, number(0.5)});
  value_.name = node("Mul", {half, node("Add", {inner, number(1)})});
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
LOCKSTEP_INLINE void OnnxGraph::gelu_tanh() {
  const std::string cube = node("Mul", {node("Mul", {value_.name, value_.name}), value_.name});
  const std::string sum = node("Add", {value_.name, node("Mul", {cube, number(0.044715)})});
  const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const std::string inner = node("Tanh", {node("Mul", {sum, number(root)})});
  value_.name =
      node("Mul", {node("Mul", {value_.name, number(0.5)}), node("Add", {inner, number(1)})});
}

LOCKSTEP_INLINE void OnnxGraph::merge(std::string_view op, std::vector<Value> branches,
                                      double factor) {
  for (Value& branch : branches) {  // all lie as the first one
    value_ = branch;
    lay_out(branches.front().channels_first);
    branch = value_;
  }
  value_ = branches.front();
  if (op == "Concat") {
    std::vector<std::string> inputs;
    inputs.reserve(branches.size());
    for (const Value& branch : branches) inputs.push_back(branch.name);
    value_.name = node(
        op, inputs, {{"axis", {value_.channels_first ? 1 : -1}, 0, OnnxAttribute::Kind::one_int}});
    return;
  }
  for (std::size_t i = 1; i < branches.size(); ++i)
    value_.name = node(op, {value_.name, branches[i].name});
  if (factor != 1) rescale(factor, 0);
}

LOCKSTEP_INLINE std::string OnnxGraph::serialize(const std::string& output,
                                                 std::span<const std::size_t> sample_shape,
                                                 std::string_view producer_version) {
  lay_out(false);
  ProtoWriter last, opset, model, graph;
  last.text(1, value_.name).text(2, output).text(3, "output").text(4, "Identity");
  graph_.message(1, last).text(2, "lockstep");
  graph_.message(11, onnx_value_info(input_, input_shape_))
      .message(12, onnx_value_info(output, sample_shape));
  opset.varint(2, 17);
  model.varint(1, 8)
      .text(2, "lockstep")
      .text(3, producer_version)
      .message(7, graph_)
      .message(8, opset);
  return model.bytes();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
