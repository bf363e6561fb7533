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

/// A window over images: height and width of everything.
struct OnnxWindow {
  std::size_t kernel[2];
  std::size_t stride[2];
  std::size_t dilation[2];
  std::size_t begin[2];  ///< padding above and left
  std::size_t end[2];    ///< below and right
};

/// The numbers of an attribute.
struct OnnxAttribute {
  std::string_view name;
  std::vector<std::int64_t> ints = {};
  float number = 0;
  enum class Kind { ints, one_int, number } kind = Kind::ints;
};

/// Nodes, one behind the other (github.com/onnx/onnx/blob/main/onnx/onnx.proto3, operators of set
/// 17). The value that the next node takes is a batch of samples: flat, or images that are channels
/// first or last. Each function appends what a layer does.
class OnnxGraph {
 public:
  /// A value, and how it lies.
  struct Value {
    std::string name;
    std::size_t rank = 1;  ///< of a sample
    bool channels_first = false;
  };

  /// `trained` and `state`: the model's variables, in order.
  OnnxGraph(std::string input, std::span<const std::size_t> sample_shape,
            std::vector<OnnxArray> trained, std::vector<OnnxArray> state);

  [[nodiscard]] const Value& value() const noexcept { return value_; }
  void set_value(Value value) { value_ = std::move(value); }

  void dense(bool use_bias);
  /// `is_depthwise`: each channel has filters of its own, whatever `groups` says.
  void convolution(const OnnxWindow& window, std::size_t groups, bool use_bias, bool is_depthwise);
  void batch_normalization(std::size_t channels, bool scale, bool center, double epsilon);
  void layer_normalization(std::size_t channels, bool scale, bool center, double epsilon);
  void pool(std::string_view op, const OnnxWindow& window);
  void global_pool(std::string_view op);
  void pad(std::size_t top, std::size_t bottom, std::size_t left, std::size_t right);
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
  std::string node(std::string_view op, const std::vector<std::string>& inputs,
                   std::initializer_list<OnnxAttribute> attributes = {});
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
