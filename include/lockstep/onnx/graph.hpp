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
#include "lockstep/records/protobuf.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A variable of the model, in this library's layout.
struct OnnxArray {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// A window over images, height and width of everything; or over a sequence, where the first number
/// counts.
struct OnnxWindow {
  std::size_t rank;  ///< 2 or 1
  std::size_t kernel[2];
  std::size_t stride[2];
  std::size_t dilation[2];
  std::size_t begin[2];  ///< padding above and left
  std::size_t end[2];    ///< below and right
};

/// The numbers of an attribute, or its text.
struct OnnxAttribute {
  std::string_view name;
  std::vector<std::int64_t> ints = {};
  float number = 0;
  enum class Kind { ints, one_int, number, text } kind = Kind::ints;
  std::string_view text = {};
};

/// Heads and dimensions of an attention.
struct OnnxAttention {
  std::size_t heads, key_dim, value_dim, queries, keys;
  bool use_bias, causal;
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
};

/// Nodes, one behind the other (github.com/onnx/onnx/blob/main/onnx/onnx.proto3, operators of set
/// 17). The value that the next node takes is a batch: of flat samples, of images that are channels
/// first or last, of sequences, likewise, or of their tokens, as layers see them that know nothing
/// of positions. Each function appends what a layer does.
class OnnxGraph {
 public:
  /// A value, and how it lies.
  struct Value {
    std::string name;
    std::size_t rank = 1;  ///< of a sample, or of a token
    bool channels_first = false;
    bool is_tokens = false;  ///< [batch * positions x token]
  };

  /// `trained` and `state`: the model's variables, in order.
  OnnxGraph(std::string input, std::span<const std::size_t> sample_shape,
            std::vector<OnnxArray> trained, std::vector<OnnxArray> state);

  [[nodiscard]] const Value& value() const noexcept { return value_; }
  void set_value(Value value) { value_ = std::move(value); }
  /// Makes tokens of sequences, if they are none, and the reverse. `shape`: of a token; of a
  /// sequence.
  void to_tokens(std::span<const std::size_t> shape);
  void to_sequences(std::span<const std::size_t> shape);
  /// After a layer that was applied to each token.
  void keep_tokens() noexcept { value_.is_tokens = true; }

  void dense(bool use_bias);
  /// `is_depthwise`: each channel has filters of its own, whatever `groups` says.
  void convolution(const OnnxWindow& window, std::size_t groups, bool use_bias, bool is_depthwise);
  void batch_normalization(std::size_t channels, bool scale, bool center, double epsilon);
  void layer_normalization(std::size_t channels, bool scale, bool center, double epsilon);
  void pool(std::string_view op, const OnnxWindow& window);
  void global_pool(std::string_view op);
  void pad(std::size_t top, std::size_t bottom, std::size_t left, std::size_t right);
  /// Of a sequence: so many positions are added before and behind it.
  void pad_positions(std::size_t left, std::size_t right);
  /// Keeps [begin, end) of the extents from the first one on.
  void slice(std::span<const std::size_t> begin, std::span<const std::size_t> end);
  /// Dimension i becomes dimension dims[i], from 1.
  void permute(std::span<const std::size_t> dims);
  /// Rows and columns, or positions, so many times.
  void up_sampling(std::span<const std::size_t> factors, bool bilinear);
  void repeat_vector(std::size_t count, std::size_t width);
  void reshape(std::span<const std::size_t> sample_shape);
  void softmax();
  /// x * scale + offset.
  void rescale(double scale, double offset);
  /// An operator of one input, with at most two attributes.
  void apply(std::string_view op, std::initializer_list<OnnxAttribute> attributes = {});
  void silu();
  void gelu();
  void gelu_tanh();
  void mish();
  void leaky_relu(double slope);
  void relu6();
  /// (x - mean) / deviation of the two variables of Normalization, or the reverse.
  void normalization(bool invert);
  void rms_normalization(double epsilon);
  /// Returns the name of the table.
  std::string embedding();
  void position_embedding(std::size_t positions);
  /// The products of each token with all rows of that table.
  void tied_logits(const std::string& table);
  /// Queries and values: sequences.
  void attention(const OnnxAttention& size, const Value& queries, const Value& values);
  void recurrence(const OnnxRecurrence& layer);
  /// `op` over the outputs of branches: Add, Mul, or Concat, which takes the last axis.
  void merge(std::string_view op, std::vector<Value> branches, double factor);

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
  const OnnxArray& take(bool trained);
  std::string weight(const OnnxArray& array);
  std::string constant(std::string_view what, const std::vector<std::int64_t>& numbers);
  std::string number(double number);
  std::string filled(std::string_view what, std::size_t size, float number);
  std::string add_initializer(std::string name, std::span<const std::size_t> shape,
                              std::span<const float> values);
  /// `which`: which of the operator's outputs is wanted.
  std::string node(std::string_view op, const std::vector<std::string>& inputs,
                   std::initializer_list<OnnxAttribute> attributes = {}, int which = 0);
  std::string transposed(const std::string& input, std::vector<std::int64_t> order);
  std::string reshaped(const std::string& input, const std::vector<std::int64_t>& shape);
  /// x times a kernel of the model, [rows x columns], plus its bias.
  std::string projected(const std::string& x, std::size_t rows, bool use_bias);
  /// The variables of one direction, appended in ONNX's order.
  void take_direction(const OnnxRecurrence& layer, OnnxArray& w, OnnxArray& r, OnnxArray& b);
  void lay_out(bool channels_first);

  Value value_;
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
