// An ONNX graph while it is made.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numbers>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/extra/records/protobuf.hpp"
#include "lockstep/kernels/int8.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/saving/exported_variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

namespace onnx {
// enum TensorProto.DataType
inline constexpr int type_float = 1, type_int8 = 3, type_int64 = 7, type_bool = 9;
// enum AttributeProto.AttributeType
inline constexpr std::uint64_t attribute_float = 1, attribute_int = 2, attribute_string = 3,
                               attribute_floats = 6, attribute_ints = 7, attribute_strings = 8;
}  // namespace onnx

/// The numbers of an attribute, or its texts.
struct OnnxAttribute {
  std::string_view name;
  std::vector<std::int64_t> ints = {};
  float number = 0;
  enum class Kind { ints, one_int, number, text, numbers, texts } kind = Kind::ints;
  std::string_view text = {};
  std::vector<float> numbers = {};
  std::vector<std::string_view> texts = {};
};

/// An attribute that is one whole number.
[[nodiscard]] inline OnnxAttribute onnx_int(std::string_view name, std::int64_t number) {
  return {name, {number}, 0, OnnxAttribute::Kind::one_int};
}

/// A ValueInfoProto: floats [batch x shape].
inline ProtoWriter onnx_value_info(const std::string& name,
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

/// Nodes, one behind the other (github.com/onnx/onnx/blob/main/onnx/onnx.proto3, operators of set
/// 17). The value that the next node takes is a batch: of flat samples, of images that are channels
/// first or last, of sequences, likewise, or of their tokens, as layers see them that know nothing
/// of positions. What each layer appends is in detail/.
class OnnxGraph : public ExportedVariables {
 public:
  /// A value, and how it lies.
  struct Value {
    std::string name;
    std::size_t rank = 1;  ///< of a sample, or of a token
    bool channels_first = false;
    bool is_tokens = false;  ///< [batch * positions x token]
  };

  explicit OnnxGraph(ExportedVariables variables) : ExportedVariables(std::move(variables)) {}
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  [[nodiscard]] Value& value() noexcept { return value_; }
  void set_value(Value value) { value_ = std::move(value); }
  /// Makes tokens of sequences, if they are none, and the reverse. `shape`: of a token; of a
  /// sequence.
  void to_tokens(std::span<const std::size_t> shape) {
    if (!value_.is_tokens) reshape(shape);
    value_.is_tokens = true;
  }
  void to_sequences(std::span<const std::size_t> shape) {
    if (value_.is_tokens) reshape(shape);
  }
  /// After a layer that was applied to each token.
  void keep_tokens() noexcept { value_.is_tokens = true; }

  /// Which positions of the sequence that goes on count, [batch x positions], 1 or 0; empty: all.
  [[nodiscard]] const std::string& mask() const noexcept { return mask_; }
  void set_mask(std::string mask) { mask_ = std::move(mask); }
  /// Positions of the sequence whose tokens a layer gets; 0: it gets no tokens.
  [[nodiscard]] std::size_t positions() const noexcept { return positions_; }
  void set_positions(std::size_t positions) noexcept { positions_ = positions; }

  /// Kernels of products are written as int8 from now on.
  void round_weights() noexcept { rounds_weights_ = true; }

  // These append an initializer, and return its name. A weight that is there already stays.
  std::string weight(const ExportedArray& array) {
    if (is_rounded(array)) {
      RoundedWeight& rounded = rounded_weight(array);
      if (rounded.floats.empty())
        rounded.floats = node("DequantizeLinear", {rounded.numbers, rounded.scales},
                              {onnx_int("axis", array.is_table ? 0 : 1)});
      return rounded.floats;
    }
    if (names_.contains(array.name)) return array.name;
    return add_initializer(array.name, array.shape, array.values);
  }
  /// Looks rows of a table up. (Of one that is int8, the others need not become floats.)
  std::string rows_of(const ExportedArray& table, const std::string& ids) {
    if (!is_rounded(table)) return node("Gather", {weight(table), ids});
    const RoundedWeight& rounded = rounded_weight(table);
    const std::string scales = node("Gather", {rounded.scales, ids});
    return node("Mul", {node("Cast", {node("Gather", {rounded.numbers, ids})},
                             {onnx_int("to", onnx::type_float)}),
                        node("Unsqueeze", {scales, constant("axis", {-1})})});
  }
  std::string constant(std::string_view what, const std::vector<std::int64_t>& numbers) {
    std::string name = concat({what, "_", constants_++});
    ProtoWriter tensor, values;
    for (const std::int64_t value : numbers) values.fixed<8>(static_cast<std::uint64_t>(value));
    tensor.varint(1, numbers.size())
        .varint(2, onnx::type_int64)
        .text(8, name)
        .text(9, values.bytes());
    graph_.message(5, tensor);
    names_.insert(name);
    return name;
  }
  /// Of no dimension.
  std::string axis(std::int64_t number) {
    std::string name = concat({"axis_", constants_++});
    ProtoWriter tensor, value;
    value.fixed<8>(static_cast<std::uint64_t>(number));
    graph_.message(5, tensor.varint(2, onnx::type_int64).text(8, name).text(9, value.bytes()));
    names_.insert(name);
    return name;
  }
  std::string number(double number) {
    const auto value = static_cast<float>(number);
    return add_initializer(concat({"number_", constants_++}), {}, {&value, 1});
  }
  std::string filled(std::string_view what, std::size_t size, float number) {
    const std::vector<float> values(size, number);
    const std::size_t shape[] = {size};
    return add_initializer(concat({what, "_", constants_++}), shape, values);
  }
  /// The same ones are written once: all attentions of a model may have one causal mask.
  std::string floats(std::string_view what, std::span<const std::size_t> shape,
                     std::span<const float> values) {
    std::string& name = floats_[{{shape.begin(), shape.end()}, {values.begin(), values.end()}}];
    if (name.empty()) name = add_initializer(concat({what, "_", constants_++}), shape, values);
    return name;
  }

  // These append a node, and return the name of its output.
  /// `which`: which of the operator's outputs is wanted.
  std::string node(std::string_view op, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {}, int which = 0) {
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
    names_.insert(output);
    return output;
  }
  std::string transposed(const std::string& input, std::vector<std::int64_t> order) {
    return node("Transpose", {input}, {{"perm", std::move(order)}});
  }
  std::string reshaped(const std::string& input, const std::vector<std::int64_t>& shape) {
    return node("Reshape", {input, constant("shape", shape)});
  }

  // These change the value.
  /// An operator of one input, with at most two attributes.
  void apply(std::string_view op, std::initializer_list<OnnxAttribute> attributes = {}) {
    value_.name = node(op, {value_.name}, attributes);
  }
  void reshape(std::span<const std::size_t> sample_shape) {
    lay_out(false);
    std::vector<std::int64_t> shape = {-1};
    for (const std::size_t extent : sample_shape)
      shape.push_back(static_cast<std::int64_t>(extent));
    value_ = {.name = node("Reshape", {value_.name, constant("shape", shape)}),
              .rank = sample_shape.size()};
  }
  void lay_out(bool channels_first) {
    if (value_.rank < 2 || value_.rank > 4 || value_.channels_first == channels_first) return;
    const auto rank = static_cast<std::int64_t>(value_.rank);
    std::vector<std::int64_t> order = {0};
    if (channels_first) order.push_back(rank);
    for (std::int64_t i = 1; i < rank; ++i) order.push_back(channels_first ? i : i + 1);
    if (!channels_first) order.push_back(1);
    value_.name = transposed(value_.name, order);
    value_.channels_first = channels_first;
  }

  // What the model has, [batch x shape].
  /// Adds an input, which is the value then.
  void add_input(const std::string& name, std::span<const std::size_t> sample_shape) {
    name_one(name);
    inputs_.message(11, onnx_value_info(name, sample_shape));
    value_ = {.name = name, .rank = sample_shape.size()};
  }
  /// The value is an output of that name.
  void add_output(const std::string& name, std::span<const std::size_t> sample_shape) {
    name_one(name);
    lay_out(false);
    ProtoWriter last;
    last.text(1, value_.name).text(2, name).text(3, concat({"output_", name})).text(4, "Identity");
    graph_.message(1, last);
    outputs_.message(12, onnx_value_info(name, sample_shape));
  }

  /// The model as a file. Throws ConfigurationError naming an input or an output that has the
  /// name of another, or of a value of the graph.
  [[nodiscard]] std::string serialize(std::string_view producer_version) {
    for (const std::string& name : own_names_)
      if (names_.contains(name))
        throw ConfigurationError(concat({"export_onnx: ", in_quotes(name),
                                         " is the name of an input or an output, and of a value in "
                                         "the graph: take another one"}));
    ProtoWriter opset, model;
    graph_.text(2, "lockstep").append(inputs_).append(outputs_);
    opset.varint(2, 17);
    model.varint(1, 8)
        .text(2, "lockstep")
        .text(3, producer_version)
        .message(7, graph_)
        .message(8, opset);
    return model.bytes();
  }

 private:
  std::string add_initializer(std::string name, std::span<const std::size_t> shape,
                              std::span<const float> values) {
    ProtoWriter tensor, numbers;
    for (const std::size_t extent : shape) tensor.varint(1, extent);
    for (const float value : values) numbers.fixed<4>(std::bit_cast<std::uint32_t>(value));
    tensor.varint(2, onnx::type_float).text(8, name).text(9, numbers.bytes());
    graph_.message(5, tensor);
    names_.insert(name);
    return name;
  }
  void name_one(const std::string& name) {
    if (name.empty() || !own_names_.insert(name).second)
      throw ConfigurationError(
          concat({"export_onnx: inputs and outputs need names that differ, got ", in_quotes(name),
                  name.empty() ? "" : " twice"}));
  }
  /// Names of values.
  struct RoundedWeight {
    std::string numbers, scales;
    std::string floats = {};  ///< empty: not needed yet
  };
  [[nodiscard]] bool is_rounded(const ExportedArray& array) const {
    return rounds_weights_ && array.product_units > 0 &&
           kernels::fits_int8(array.values.size() / array.product_units);
  }
  /// As Int8Weights rounds them, a scale for each unit.
  RoundedWeight& rounded_weight(const ExportedArray& array) {
    RoundedWeight& value = rounded_[array.name];
    if (!value.numbers.empty()) return value;
    const std::size_t units = array.product_units, inputs = array.values.size() / units;
    const Buffer memory(kernels::Int8Kernel::bytes(inputs, units));
    const kernels::Int8Kernel kernel(inputs, units, memory.data());
    kernels::quantize_int8(inputs, units, array.values.data(), kernel, array.is_table);
    const std::size_t unit_step = array.is_table ? inputs : 1,
                      input_step = array.is_table ? 1 : units;
    std::string numbers(inputs * units, '\0');
    for (std::size_t i = 0; i < inputs; ++i)
      for (std::size_t u = 0; u < units; ++u)
        numbers[i * input_step + u * unit_step] =
            static_cast<char>(kernel.numbers()[u * kernel.inputs() + i]);
    value.numbers = array.name + "/int8";
    ProtoWriter tensor;
    tensor.varint(1, array.is_table ? units : inputs)
        .varint(1, array.is_table ? inputs : units)
        .varint(2, onnx::type_int8)
        .text(8, value.numbers);
    graph_.message(5, tensor.text(9, numbers));
    names_.insert(value.numbers);
    value.scales = add_initializer(array.name + "/scale", {&units, 1}, {kernel.scales(), units});
    return value;
  }

  Value value_;
  std::string mask_;
  std::size_t positions_ = 0;
  bool rounds_weights_ = false;
  std::map<std::string, RoundedWeight> rounded_;  // by the variables' names
  std::map<std::pair<std::vector<std::size_t>, std::vector<float>>, std::string> floats_;
  std::size_t nodes_ = 0, constants_ = 0;
  std::set<std::string> names_;      // of all values
  std::set<std::string> own_names_;  // of inputs and outputs
  ProtoWriter graph_;                // its nodes and initializers
  ProtoWriter inputs_, outputs_;
};

void onnx_dense(OnnxGraph& graph, bool use_bias);
void onnx_softmax(OnnxGraph& graph);
/// x * scale + offset.
void onnx_rescale(OnnxGraph& graph, double scale, double offset);
void onnx_silu(OnnxGraph& graph);
void onnx_gelu(OnnxGraph& graph);
void onnx_gelu_tanh(OnnxGraph& graph);
void onnx_mish(OnnxGraph& graph);
void onnx_leaky_relu(OnnxGraph& graph, double slope);
void onnx_relu6(OnnxGraph& graph);
/// The products of each token with all rows of that table.
void onnx_tied_logits(OnnxGraph& graph, const ExportedArray& table);

/// Layers beside each other, which are all given the value that there was before.
class OnnxBranches {
 public:
  explicit OnnxBranches(OnnxGraph& graph)
      : graph_(graph), input_(graph.value()), mask_(graph.mask()) {}
  OnnxBranches(const OnnxBranches&) = delete;
  OnnxBranches& operator=(const OnnxBranches&) = delete;

  // Before a branch is written, and behind it.
  void begin() {
    graph_.set_value(input_);
    graph_.set_mask(mask_);
  }
  void end() {
    outputs_.push_back(graph_.value());
    masks_of_outputs_.push_back(graph_.mask());
  }
  /// `op` over the outputs: Add, Mul, or Concat, which takes the last axis. A row counts where
  /// it does in one branch.
  void merge(std::string_view op, double factor) {
    for (OnnxGraph::Value& output : outputs_) {  // all lie as the first one
      graph_.value() = output;
      graph_.lay_out(outputs_.front().channels_first);
      output = graph_.value();
    }
    graph_.set_value(outputs_.front());
    graph_.set_mask(merged_mask());
    if (op == "Concat") {
      std::vector<std::string> inputs;
      inputs.reserve(outputs_.size());
      for (const OnnxGraph::Value& output : outputs_) inputs.push_back(output.name);
      graph_.value().name = graph_.node(
          op, inputs,
          {{"axis", {graph_.value().channels_first ? 1 : -1}, 0, OnnxAttribute::Kind::one_int}});
      return;
    }
    for (std::size_t i = 1; i < outputs_.size(); ++i)
      graph_.value().name = graph_.node(op, {graph_.value().name, outputs_[i].name});
    if (factor != 1) onnx_rescale(graph_, factor, 0);
  }
  /// The sum of the products of two flat outputs, of length 1 first with `normalize`: see Dot.
  void dot(bool normalize) {
    const auto sum_of_products = [&](const std::string& a, const std::string& b) {
      return graph_.node("ReduceSum", {graph_.node("Mul", {a, b}), graph_.constant("axes", {-1})});
    };
    if (normalize)
      for (OnnxGraph::Value& output : outputs_) {
        const std::string length = graph_.node("Sqrt", {sum_of_products(output.name, output.name)});
        output.name =
            graph_.node("Div", {output.name, graph_.node("Max", {length, graph_.number(1e-7)})});
      }
    graph_.set_value(outputs_[0]);
    graph_.set_mask(merged_mask());
    graph_.value().name = sum_of_products(outputs_[0].name, outputs_[1].name);
  }

 private:
  /// See merged_mask in network/branches.hpp.
  [[nodiscard]] std::string merged_mask() {
    std::vector<std::string>& masks = masks_of_outputs_;
    std::sort(masks.begin(), masks.end());
    masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
    if (masks.front().empty() || masks.size() == 1) return masks.front();
    return graph_.node("Max", masks);
  }

  OnnxGraph& graph_;
  OnnxGraph::Value input_;
  std::string mask_;
  std::vector<std::string> masks_of_outputs_;
  std::vector<OnnxGraph::Value> outputs_;
};

inline void onnx_dense(OnnxGraph& graph, bool use_bias) {
  std::vector<std::string> inputs = {graph.value().name, graph.weight(graph.take(true))};
  if (use_bias) inputs.push_back(graph.weight(graph.take(true)));
  graph.value() = {.name = graph.node("Gemm", inputs), .rank = 1};
}

inline void onnx_softmax(OnnxGraph& graph) {
  graph.lay_out(false);
  graph.value().name = graph.node("Softmax", {graph.value().name},
                                  {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int}});
}

inline void onnx_rescale(OnnxGraph& graph, double scale, double offset) {
  graph.value().name = graph.node("Mul", {graph.value().name, graph.number(scale)});
  if (offset != 0)
    graph.value().name = graph.node("Add", {graph.value().name, graph.number(offset)});
}

inline void onnx_silu(OnnxGraph& graph) {
  graph.value().name =
      graph.node("Mul", {graph.value().name, graph.node("Sigmoid", {graph.value().name})});
}

inline void onnx_mish(OnnxGraph& graph) {
  graph.value().name = graph.node(
      "Mul",
      {graph.value().name, graph.node("Tanh", {graph.node("Softplus", {graph.value().name})})});
}

inline void onnx_leaky_relu(OnnxGraph& graph, double slope) {
  graph.apply("LeakyRelu", {{"alpha", {}, static_cast<float>(slope), OnnxAttribute::Kind::number}});
}

inline void onnx_relu6(OnnxGraph& graph) {
  graph.value().name = graph.node("Clip", {graph.value().name, graph.number(0), graph.number(6)});
}

/// x / 2 (1 + erf(x / sqrt(2)))
inline void onnx_gelu(OnnxGraph& graph) {
  const std::string inner = graph.node(
      "Erf", {graph.node("Mul", {graph.value().name, graph.number(1 / std::numbers::sqrt2)})});
  const std::string half = graph.node("Mul", {graph.value().name, graph.number(0.5)});
  graph.value().name = graph.node("Mul", {half, graph.node("Add", {inner, graph.number(1)})});
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
inline void onnx_gelu_tanh(OnnxGraph& graph) {
  const std::string cube = graph.node(
      "Mul", {graph.node("Mul", {graph.value().name, graph.value().name}), graph.value().name});
  const std::string sum =
      graph.node("Add", {graph.value().name, graph.node("Mul", {cube, graph.number(0.044715)})});
  const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const std::string inner = graph.node("Tanh", {graph.node("Mul", {sum, graph.number(root)})});
  graph.value().name =
      graph.node("Mul", {graph.node("Mul", {graph.value().name, graph.number(0.5)}),
                         graph.node("Add", {inner, graph.number(1)})});
}

inline void onnx_tied_logits(OnnxGraph& graph, const ExportedArray& table) {
  graph.lay_out(false);
  graph.value().name =
      graph.node("MatMul", {graph.value().name, graph.transposed(graph.weight(table), {1, 0})});
}

/// Pads an image or a volume before and behind each extent but the channels.
void onnx_pad(OnnxGraph& graph, std::span<const std::size_t> begin,
              std::span<const std::size_t> end);
/// Pads a sequence with `left` positions before it and `right` behind it.
void onnx_pad_positions(OnnxGraph& graph, std::size_t left, std::size_t right);
/// Keeps [begin, end) of the extents from the first one on.
void onnx_slice(OnnxGraph& graph, std::span<const std::size_t> begin,
                std::span<const std::size_t> end);
/// Dimension i becomes dimension dims[i], from 1.
void onnx_permute(OnnxGraph& graph, std::span<const std::size_t> dims);
/// How often rows and columns, or positions, are repeated.
void onnx_up_sampling(OnnxGraph& graph, std::span<const std::size_t> factors, bool bilinear);
void onnx_repeat_vector(OnnxGraph& graph, std::size_t count, std::size_t width);

inline void onnx_pad(OnnxGraph& graph, std::span<const std::size_t> begin,
                     std::span<const std::size_t> end) {
  graph.lay_out(true);
  std::vector<std::int64_t> pads = {0, 0};
  pads.insert(pads.end(), begin.begin(), begin.end());
  pads.insert(pads.end(), 2, 0);
  pads.insert(pads.end(), end.begin(), end.end());
  graph.value().name = graph.node("Pad", {graph.value().name, graph.constant("pads", pads)});
}

inline void onnx_pad_positions(OnnxGraph& graph, std::size_t left, std::size_t right) {
  graph.lay_out(false);
  graph.value().name = graph.node(
      "Pad", {graph.value().name, graph.constant("pads", {0, static_cast<std::int64_t>(left), 0, 0,
                                                          static_cast<std::int64_t>(right), 0})});
}

inline void onnx_slice(OnnxGraph& graph, std::span<const std::size_t> begin,
                       std::span<const std::size_t> end) {
  graph.lay_out(false);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < begin.size(); ++i) axes.push_back(static_cast<std::int64_t>(i + 1));
  const std::string first = graph.constant("begin", {begin.begin(), begin.end()});
  const std::string last = graph.constant("end", {end.begin(), end.end()});
  graph.value().name =
      graph.node("Slice", {graph.value().name, first, last, graph.constant("axes", axes)});
}

inline void onnx_permute(OnnxGraph& graph, std::span<const std::size_t> dims) {
  graph.lay_out(false);
  std::vector<std::int64_t> order = {0};
  for (const std::size_t dim : dims) order.push_back(static_cast<std::int64_t>(dim));
  graph.value().name = graph.transposed(graph.value().name, std::move(order));
}

inline void onnx_up_sampling(OnnxGraph& graph, std::span<const std::size_t> factors,
                             bool bilinear) {
  graph.lay_out(true);
  std::vector<float> scales = {1, 1};
  for (const std::size_t factor : factors) scales.push_back(static_cast<float>(factor));
  const std::size_t shape[] = {scales.size()};
  const std::string scale = graph.floats("scales", shape, scales);
  const auto text = [](std::string_view name, std::string_view value) {
    return OnnxAttribute{name, {}, 0, OnnxAttribute::Kind::text, value};
  };
  graph.value().name =
      graph.node("Resize", {graph.value().name, "", scale},
                 {text("mode", bilinear ? "linear" : "nearest"), text("nearest_mode", "floor"),
                  text("coordinate_transformation_mode", bilinear ? "half_pixel" : "asymmetric")});
}

inline void onnx_repeat_vector(OnnxGraph& graph, std::size_t count, std::size_t width) {
  const std::string token =
      graph.reshaped(graph.value().name, {-1, 1, static_cast<std::int64_t>(width)});
  const std::string shape = graph.constant("shape", {1, static_cast<std::int64_t>(count), 1});
  graph.value() = {.name = graph.node("Expand", {token, shape}), .rank = 2};
}

/// write<In>(graph): what a layer does to samples of shape In.
template <class L>
struct OnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {
    static_assert(
        !sizeof(L),
        "lockstep: export_onnx knows no ONNX operator for this layer; see onnx/README.md");
  }
};

/// Layers that do nothing in inference.
struct NoOnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {}
};
template <std::size_t... Extents>
struct OnnxOperator<Input<Extents...>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<Dropout<Rate>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<SpatialDropout1D<Rate>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<SpatialDropout2D<Rate>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<GaussianDropout<Rate>> : NoOnnxOperator {};
template <Number Stddev>
struct OnnxOperator<GaussianNoise<Stddev>> : NoOnnxOperator {};
template <Regularizer Penalty>
struct OnnxOperator<ActivityRegularization<Penalty>> : NoOnnxOperator {};
template <>
struct OnnxOperator<Identity> : NoOnnxOperator {};

}}}  // namespace lockstep::detail
