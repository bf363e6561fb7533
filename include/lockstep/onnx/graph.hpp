// An ONNX graph while it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/records/protobuf.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

namespace onnx {
// enum TensorProto.DataType
inline constexpr int type_float = 1, type_int64 = 7, type_bool = 9;
}  // namespace onnx

/// A variable of the model, in this library's layout.
struct OnnxArray {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

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

/// Nodes, one behind the other (github.com/onnx/onnx/blob/main/onnx/onnx.proto3, operators of set
/// 17). The value that the next node takes is a batch: of flat samples, of images that are channels
/// first or last, of sequences, likewise, or of their tokens, as layers see them that know nothing
/// of positions. What each layer appends is in detail/.
class OnnxGraph {
 public:
  /// A value, and how it lies.
  struct Value {
    std::string name;
    std::size_t rank = 1;  ///< of a sample, or of a token
    bool channels_first = false;
    bool is_tokens = false;  ///< [batch * positions x token]
  };

  OnnxGraph(std::string input, std::span<const std::size_t> sample_shape);
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;
  ~OnnxGraph();

  /// Before the layers: the model's variables, in order. Returns where its `size` values belong.
  float* add_variable(const VariablePlace& place, const std::string& name,
                      std::span<const std::size_t> shape, std::size_t size);

  [[nodiscard]] Value& value() noexcept { return value_; }
  void set_value(Value value) { value_ = std::move(value); }
  /// Makes tokens of sequences, if they are none, and the reverse. `shape`: of a token; of a
  /// sequence.
  void to_tokens(std::span<const std::size_t> shape);
  void to_sequences(std::span<const std::size_t> shape);
  /// After a layer that was applied to each token.
  void keep_tokens() noexcept { value_.is_tokens = true; }

  /// Which positions of the sequence that goes on count, [batch x positions], 1 or 0; empty: all.
  [[nodiscard]] const std::string& mask() const noexcept { return mask_; }
  void set_mask(std::string mask) { mask_ = std::move(mask); }
  /// Of the sequence whose tokens a layer is given; 0: they are no tokens.
  [[nodiscard]] std::size_t positions() const noexcept { return positions_; }
  void set_positions(std::size_t positions) noexcept { positions_ = positions; }

  /// The next variable of the model, trained or not; the next trained one, which is not taken.
  const OnnxArray& take(bool trained);
  [[nodiscard]] const OnnxArray& next_trained() const;

  // These append an initializer, and return its name.
  std::string weight(const OnnxArray& array);
  std::string constant(std::string_view what, const std::vector<std::int64_t>& numbers);
  std::string axis(std::int64_t number);  ///< of no dimension
  std::string number(double number);
  std::string filled(std::string_view what, std::size_t size, float number);
  std::string floats(std::string_view what, std::span<const std::size_t> shape,
                     std::span<const float> values);

  // These append a node, and return the name of its output.
  /// `which`: which of the operator's outputs is wanted.
  std::string node(std::string_view op, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {}, int which = 0);
  std::string transposed(const std::string& input, std::vector<std::int64_t> order);
  std::string reshaped(const std::string& input, const std::vector<std::int64_t>& shape);

  // These change the value.
  /// An operator of one input, with at most two attributes.
  void apply(std::string_view op, std::initializer_list<OnnxAttribute> attributes = {});
  void reshape(std::span<const std::size_t> sample_shape);
  void lay_out(bool channels_first);

  /// What Frozen's layers take is among the state: their trained variables, and behind those the
  /// others. Returns what restore needs.
  struct Cursors {
    std::size_t trained, state;
    bool is_frozen;
  };
  [[nodiscard]] Cursors freeze(std::size_t trained_count);
  void unfreeze(const Cursors& before, std::size_t state_count);

  /// The model as a file. `output`: the name of the last value.
  [[nodiscard]] std::string serialize(const std::string& output,
                                      std::span<const std::size_t> sample_shape,
                                      std::string_view producer_version);

 private:
  std::string add_initializer(std::string name, std::span<const std::size_t> shape,
                              std::span<const float> values);

  Value value_;
  std::string mask_;
  std::size_t positions_ = 0;
  std::string input_;
  std::vector<std::size_t> input_shape_;
  std::vector<OnnxArray> trained_, state_;
  std::size_t next_trained_ = 0, next_state_ = 0;
  bool is_frozen_ = false;
  std::size_t nodes_ = 0, constants_ = 0;
  ProtoWriter graph_;  // its nodes and initializers
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/onnx/graph.ipp"
#endif
