#pragma once

#include <bit>
#include <numbers>
#include <utility>

#include "lockstep/core/text.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

namespace onnx {
// enum TensorProto.DataType, enum AttributeProto.AttributeType
inline constexpr std::uint64_t type_float = 1, type_int64 = 7;
inline constexpr std::uint64_t attribute_float = 1, attribute_int = 2, attribute_ints = 7;
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
                                            std::initializer_list<OnnxAttribute> attributes) {
  std::string output = concat({"value_", nodes_++});
  ProtoWriter written;
  for (const std::string& input : inputs) written.text(1, input);
  written.text(2, output).text(3, concat({op, "_", nodes_ - 1})).text(4, op);
  for (const OnnxAttribute& attribute : attributes) {
    ProtoWriter field;
    field.text(1, attribute.name);
    if (attribute.kind == OnnxAttribute::Kind::number) {
      field.number(2, attribute.number).varint(20, onnx::attribute_float);
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

LOCKSTEP_INLINE void OnnxGraph::lay_out(bool channels_first) {
  if (value_.rank != 3 || value_.channels_first == channels_first) return;
  const std::vector<std::int64_t> order = channels_first ? std::vector<std::int64_t>{0, 3, 1, 2}
                                                         : std::vector<std::int64_t>{0, 2, 3, 1};
  value_.name = node("Transpose", {value_.name}, {{"perm", order}});
  value_.channels_first = channels_first;
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
  // channel has filters of its own, [channels * filters x 1 x height x width].
  const OnnxArray& kernel = take(true);
  const std::size_t pixels = kernel.shape[0] * kernel.shape[1], channels = kernel.shape[2],
                    filters = kernel.shape[3];
  OnnxArray turned{.name = kernel.name,
                   .shape = {is_depthwise ? channels * filters : filters,
                             is_depthwise ? 1 : channels, kernel.shape[0], kernel.shape[1]},
                   .values = std::vector<float>(kernel.values.size())};
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t f = 0; f < filters; ++f) {
        const std::size_t row = is_depthwise ? c * filters + f : f * channels + c;
        turned.values[row * pixels + p] = kernel.values[(p * channels + c) * filters + f];
      }
  std::vector<std::string> inputs = {value_.name, weight(turned)};
  if (use_bias) inputs.push_back(weight(take(true)));
  const auto both = [](const std::size_t(&numbers)[2]) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(numbers[0]),
                                     static_cast<std::int64_t>(numbers[1])};
  };
  std::vector<std::int64_t> pads = both(window.begin);
  for (const std::int64_t end : both(window.end)) pads.push_back(end);
  const auto group = static_cast<std::int64_t>(is_depthwise ? channels : groups);
  value_.name = node("Conv", inputs,
                     {{"kernel_shape", both(window.kernel)},
                      {"strides", both(window.stride)},
                      {"dilations", both(window.dilation)},
                      {"pads", pads},
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
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  value_.name = node(op, {value_.name},
                     {{"kernel_shape", {as_int(window.kernel[0]), as_int(window.kernel[1])}},
                      {"strides", {as_int(window.stride[0]), as_int(window.stride[1])}},
                      {"pads",
                       {as_int(window.begin[0]), as_int(window.begin[1]), as_int(window.end[0]),
                        as_int(window.end[1])}}});
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
    value_.name = node(op, inputs,
                       {{"axis",
                         {value_.rank == 3 && value_.channels_first ? 1 : -1},
                         0,
                         OnnxAttribute::Kind::one_int}});
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
