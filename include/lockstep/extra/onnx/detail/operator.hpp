// What an operator is to export_onnx: the layers that are none, ONNX functions, shapes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/input.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
void onnx_tied_logits(OnnxGraph& graph, const std::string& table);

/// Layers beside each other, which are all given the value that there was before.
class OnnxBranches {
 public:
  explicit OnnxBranches(OnnxGraph& graph);
  OnnxBranches(const OnnxBranches&) = delete;
  OnnxBranches& operator=(const OnnxBranches&) = delete;
  ~OnnxBranches();

  // Before a branch is written, and behind it.
  void begin();
  void end();
  /// `op` over the outputs: Add, Mul, or Concat, which takes the last axis. A row counts where
  /// it does in one branch.
  void merge(std::string_view op, double factor);

 private:
  [[nodiscard]] std::string merged_mask();

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

inline OnnxBranches::OnnxBranches(OnnxGraph& graph)
    : graph_(graph), input_(graph.value()), mask_(graph.mask()) {}

inline OnnxBranches::~OnnxBranches() = default;

inline void OnnxBranches::begin() {
  graph_.set_value(input_);
  graph_.set_mask(mask_);
}

inline void OnnxBranches::end() {
  outputs_.push_back(graph_.value());
  masks_of_outputs_.push_back(graph_.mask());
}

/// See merged_mask in network/run_branches.hpp.
inline std::string OnnxBranches::merged_mask() {
  std::vector<std::string>& masks = masks_of_outputs_;
  std::sort(masks.begin(), masks.end());
  masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
  if (masks.front().empty() || masks.size() == 1) return masks.front();
  return graph_.node("Max", masks);
}

inline void OnnxBranches::merge(std::string_view op, double factor) {
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

inline void onnx_tied_logits(OnnxGraph& graph, const std::string& table) {
  graph.lay_out(false);
  graph.value().name = graph.node("MatMul", {graph.value().name, graph.transposed(table, {1, 0})});
}

void onnx_pad(OnnxGraph& graph, std::size_t top, std::size_t bottom, std::size_t left,
              std::size_t right);
/// Of a sequence: so many positions are added before and behind it.
void onnx_pad_positions(OnnxGraph& graph, std::size_t left, std::size_t right);
/// Keeps [begin, end) of the extents from the first one on.
void onnx_slice(OnnxGraph& graph, std::span<const std::size_t> begin,
                std::span<const std::size_t> end);
/// Dimension i becomes dimension dims[i], from 1.
void onnx_permute(OnnxGraph& graph, std::span<const std::size_t> dims);
/// Rows and columns, or positions, so many times.
void onnx_up_sampling(OnnxGraph& graph, std::span<const std::size_t> factors, bool bilinear);
void onnx_repeat_vector(OnnxGraph& graph, std::size_t count, std::size_t width);

inline void onnx_pad(OnnxGraph& graph, std::size_t top, std::size_t bottom, std::size_t left,
                     std::size_t right) {
  graph.lay_out(true);
  const auto as_int = [](std::size_t number) { return static_cast<std::int64_t>(number); };
  const std::string pads = graph.constant(
      "pads", {0, 0, as_int(top), as_int(left), 0, 0, as_int(bottom), as_int(right)});
  graph.value().name = graph.node("Pad", {graph.value().name, pads});
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
