#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "lockstep/core/text.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

namespace onnx {
// enum AttributeProto.AttributeType
inline constexpr std::uint64_t attribute_float = 1, attribute_int = 2, attribute_string = 3,
                               attribute_floats = 6, attribute_ints = 7, attribute_strings = 8;
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

LOCKSTEP_INLINE OnnxGraph::OnnxGraph(std::string input, std::span<const std::size_t> sample_shape)
    : value_{.name = input, .rank = sample_shape.size()},
      input_(std::move(input)),
      input_shape_(sample_shape.begin(), sample_shape.end()) {}

LOCKSTEP_INLINE OnnxGraph::~OnnxGraph() = default;

LOCKSTEP_INLINE float* OnnxGraph::add_variable(const VariablePlace& place, const std::string& name,
                                               std::span<const std::size_t> shape,
                                               std::size_t size) {
  std::vector<OnnxArray>& arrays = place.is_trained ? trained_ : state_;
  if (arrays.size() <= place.index) arrays.resize(place.index + 1);
  arrays[place.index] = {name, {shape.begin(), shape.end()}, std::vector<float>(size)};
  return arrays[place.index].values.data();
}

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

LOCKSTEP_INLINE std::string OnnxGraph::axis(std::int64_t number) {
  std::string name = concat({"axis_", constants_++});
  ProtoWriter tensor, value;
  value.fixed<8>(static_cast<std::uint64_t>(number));
  graph_.message(5, tensor.varint(2, onnx::type_int64).text(8, name).text(9, value.bytes()));
  return name;
}

LOCKSTEP_INLINE std::string OnnxGraph::number(double number) {
  const auto value = static_cast<float>(number);
  return add_initializer(concat({"number_", constants_++}), {}, {&value, 1});
}

LOCKSTEP_INLINE std::string OnnxGraph::floats(std::string_view what,
                                              std::span<const std::size_t> shape,
                                              std::span<const float> values) {
  return add_initializer(concat({what, "_", constants_++}), shape, values);
}

LOCKSTEP_INLINE const OnnxArray& OnnxGraph::next_trained() const {
  return (is_frozen_ ? state_ : trained_).at(next_trained_);
}

LOCKSTEP_INLINE std::string OnnxGraph::filled(std::string_view what, std::size_t size,
                                              float number) {
  const std::vector<float> values(size, number);
  const std::size_t shape[] = {size};
  return add_initializer(concat({what, "_", constants_++}), shape, values);
}

LOCKSTEP_INLINE std::string OnnxGraph::node(std::string_view op,
                                            const std::vector<std::string>& inputs,
                                            const std::vector<OnnxAttribute>& attributes,
                                            int which) {
  std::string output = concat({"value_", nodes_++});
  ProtoWriter written;
  for (const std::string& input : inputs) written.text(1, input);
  // Outputs before it are not used: those of a recurrence may be left out, those of TopK must be
  // there.
  for (int i = 0; i < which; ++i) written.text(2, op == "TopK" ? output + "_unused" : "");
  written.text(2, output).text(3, concat({op, "_", nodes_ - 1})).text(4, op);
  for (const OnnxAttribute& attribute : attributes) {
    ProtoWriter field;
    field.text(1, attribute.name);
    if (attribute.kind == OnnxAttribute::Kind::number) {
      field.number(2, attribute.number).varint(20, onnx::attribute_float);
    } else if (attribute.kind == OnnxAttribute::Kind::text) {
      field.text(4, attribute.text).varint(20, onnx::attribute_string);
    } else if (attribute.kind == OnnxAttribute::Kind::numbers) {
      for (const float number : attribute.numbers) field.number(7, number);
      field.varint(20, onnx::attribute_floats);
    } else if (attribute.kind == OnnxAttribute::Kind::texts) {
      for (const std::string_view text : attribute.texts) field.text(9, text);
      field.varint(20, onnx::attribute_strings);
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

LOCKSTEP_INLINE void OnnxGraph::reshape(std::span<const std::size_t> sample_shape) {
  lay_out(false);
  std::vector<std::int64_t> shape = {-1};
  for (const std::size_t extent : sample_shape) shape.push_back(static_cast<std::int64_t>(extent));
  value_ = {.name = node("Reshape", {value_.name, constant("shape", shape)}),
            .rank = sample_shape.size()};
}

LOCKSTEP_INLINE void OnnxGraph::apply(std::string_view op,
                                      std::initializer_list<OnnxAttribute> attributes) {
  value_.name = node(op, {value_.name}, attributes);
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
