// Layers as operators of ONNX: those without windows, then convolution, pooling and their kin.
//
// (One file of more than 800 lines: an entry for each layer, all of them one table.)
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/category_encoding.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/conv3d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/discretization.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/pooling3d.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/up_sampling.hpp"
#include "lockstep/layers/window.hpp"
#include "lockstep/network/repeat.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class F>
inline constexpr bool is_leaky_relu = false;
template <int SlopePercent>
inline constexpr bool is_leaky_relu<LeakyReLU<SlopePercent>> = true;
template <class F>
inline constexpr double leaky_slope = 0;
template <int SlopePercent>
inline constexpr double leaky_slope<LeakyReLU<SlopePercent>> = SlopePercent / 100.0;

template <class F>
void write_activation(OnnxGraph& graph) {
  constexpr auto number = [](std::string_view name, double value) {
    return OnnxAttribute{name, {}, static_cast<float>(value), OnnxAttribute::Kind::number};
  };
  if constexpr (std::is_same_v<F, Linear>)
    return;
  else if constexpr (std::is_same_v<F, ReLU>)
    graph.apply("Relu");
  else if constexpr (std::is_same_v<F, ReLU6>)
    onnx_relu6(graph);
  else if constexpr (is_leaky_relu<F>)
    onnx_leaky_relu(graph, leaky_slope<F>);
  else if constexpr (std::is_same_v<F, Sigmoid>)
    graph.apply("Sigmoid");
  else if constexpr (std::is_same_v<F, Tanh>)
    graph.apply("Tanh");
  else if constexpr (std::is_same_v<F, ELU>)
    graph.apply("Elu");
  else if constexpr (std::is_same_v<F, SELU>)
    graph.apply("Selu");
  else if constexpr (std::is_same_v<F, Softplus>)
    graph.apply("Softplus");
  else if constexpr (std::is_same_v<F, Softsign>)
    graph.apply("Softsign");
  else if constexpr (std::is_same_v<F, Exponential>)
    graph.apply("Exp");
  else if constexpr (std::is_same_v<F, HardSigmoid>)
    graph.apply("HardSigmoid", {number("alpha", 1.0 / 6), number("beta", 0.5)});
  else if constexpr (std::is_same_v<F, HardSiLU>)
    graph.apply("HardSwish");
  else if constexpr (std::is_same_v<F, SiLU>)
    onnx_silu(graph);
  else if constexpr (std::is_same_v<F, Mish>)
    onnx_mish(graph);
  else if constexpr (std::is_same_v<F, GELU>)
    onnx_gelu(graph);
  else if constexpr (std::is_same_v<F, GELUTanh>)
    onnx_gelu_tanh(graph);
  else
    static_assert(!sizeof(F),
                  "lockstep: export_onnx knows no ONNX operator for this activation function");
}

template <class F>
struct OnnxOperator<Activation<F>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    write_activation<F>(graph);
  }
};
template <>
struct OnnxOperator<Softmax> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_softmax(graph);
  }
};
template <Number Scale, Number Offset>
struct OnnxOperator<Rescaling<Scale, Offset>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_rescale(graph, Scale.value, Offset.value);
  }
};

void onnx_bins(OnnxGraph& graph, std::span<const double> boundaries);
void onnx_learned_bins(OnnxGraph& graph, std::size_t boundaries);
template <auto Boundaries, DiscretizationOptions Options>
struct OnnxOperator<Discretization<Boundaries, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    if constexpr (requires { Boundaries.value; })
      onnx_bins(graph, Boundaries.value);
    else
      onnx_learned_bins(graph, Discretization<Boundaries, Options>::bins - 1);
  }
};

void onnx_categories(OnnxGraph& graph, std::size_t categories, CategoryOutput output);
template <std::size_t NumTokens, CategoryEncodingOptions Options>
struct OnnxOperator<CategoryEncoding<NumTokens, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_categories(graph, NumTokens, Options.output_mode);
    if constexpr (CategoryEncoding<NumTokens, Options>::is_one_hot)
      graph.reshape(CategoryEncoding<NumTokens, Options>::template Output<In>::extents);
  }
};

void onnx_batch_normalization(OnnxGraph& graph, std::size_t channels, bool scale, bool center,
                              double epsilon);
void onnx_layer_normalization(OnnxGraph& graph, std::size_t channels, bool scale, bool center,
                              double epsilon);
void onnx_rms_normalization(OnnxGraph& graph, double epsilon);
/// Takes samples of at most three dimensions whose last one is the channels. (Operator set 18 has a
/// GroupNormalization with a factor for each group only, and few programs know the one of set 21:
/// this is made of the one for a single channel.)
void onnx_group_normalization(OnnxGraph& graph, std::span<const std::size_t> sample_shape,
                              std::size_t groups, bool scale, bool center, double epsilon);
/// (x - mean) / deviation of the two variables of Normalization, or the reverse.
void onnx_normalization(OnnxGraph& graph, bool invert);

/// As many as there are, less one for each boundary that is above.
inline void onnx_bins(OnnxGraph& graph, std::span<const double> boundaries) {
  std::string bin = graph.number(static_cast<double>(boundaries.size()));
  for (const double boundary : boundaries)
    bin = graph.node(
        "Sub",
        {bin, graph.node("Cast", {graph.node("Less", {graph.value().name, graph.number(boundary)})},
                         {onnx_int("to", onnx::type_float)})});
  graph.value().name = bin;
}

/// The same of boundaries that are a variable: all at once, along a dimension more.
inline void onnx_learned_bins(OnnxGraph& graph, std::size_t boundaries) {
  const std::string last = graph.constant("last", {-1});
  const std::string is_below = graph.node(
      "Less",
      {graph.node("Unsqueeze", {graph.value().name, last}), graph.weight(graph.take(false))});
  const std::string above = graph.node(
      "ReduceSum", {graph.node("Cast", {is_below}, {onnx_int("to", onnx::type_float)}), last},
      {onnx_int("keepdims", 0)});
  graph.value().name = graph.node("Sub", {graph.number(static_cast<double>(boundaries)), above});
}

/// A 1 in the place of each category, and their sum over the numbers of a sample, at most 1.
inline void onnx_categories(OnnxGraph& graph, std::size_t categories, CategoryOutput output) {
  const std::string ids =
      graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_int64)});
  const std::string count = graph.constant("categories", {static_cast<std::int64_t>(categories)});
  std::string y = graph.node("Cast",
                             {graph.node("OneHot", {ids, count, graph.constant("off_on", {0, 1})},
                                         {onnx_int("axis", -1)})},
                             {onnx_int("to", onnx::type_float)});
  if (output != CategoryOutput::one_hot)
    y = graph.node("ReduceSum", {y, graph.constant("axes", {1})}, {onnx_int("keepdims", 0)});
  if (output == CategoryOutput::multi_hot) y = graph.node("Min", {y, graph.number(1)});
  graph.value() = {.name = y, .rank = output == CategoryOutput::one_hot ? 2U : 1U};
}

inline void onnx_batch_normalization(OnnxGraph& graph, std::size_t channels, bool scale,
                                     bool center, double epsilon) {
  graph.lay_out(true);
  const std::string gamma =
      scale ? graph.weight(graph.take(true)) : graph.filled("ones", channels, 1);
  const std::string beta =
      center ? graph.weight(graph.take(true)) : graph.filled("zeros", channels, 0);
  const std::string mean = graph.weight(graph.take(false)),
                    variance = graph.weight(graph.take(false));
  graph.value().name =
      graph.node("BatchNormalization", {graph.value().name, gamma, beta, mean, variance},
                 {{"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
}

inline void onnx_layer_normalization(OnnxGraph& graph, std::size_t channels, bool scale,
                                     bool center, double epsilon) {
  graph.lay_out(false);
  std::vector<std::string> inputs = {graph.value().name};
  inputs.push_back(scale ? graph.weight(graph.take(true)) : graph.filled("ones", channels, 1));
  if (center) inputs.push_back(graph.weight(graph.take(true)));
  graph.value().name =
      graph.node("LayerNormalization", inputs,
                 {{"axis", {-1}, 0, OnnxAttribute::Kind::one_int},
                  {"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
}

inline void onnx_rms_normalization(OnnxGraph& graph, double epsilon) {
  graph.lay_out(false);
  const std::string mean =
      graph.node("ReduceMean", {graph.node("Mul", {graph.value().name, graph.value().name})},
                 {{"axes", {-1}}});
  const std::string root = graph.node("Sqrt", {graph.node("Add", {mean, graph.number(epsilon)})});
  graph.value().name = graph.node(
      "Mul", {graph.node("Div", {graph.value().name, root}), graph.weight(graph.take(true))});
}

inline void onnx_normalization(OnnxGraph& graph, bool invert) {
  graph.lay_out(false);
  const ExportedArray& mean = graph.take(false);
  ExportedArray deviation = graph.take(false);
  for (float& value : deviation.values)
    value = static_cast<float>(std::max(std::sqrt(static_cast<double>(value)), 1e-7));
  const std::string offset = graph.weight(mean), factor = graph.weight(deviation);
  graph.value().name =
      invert ? graph.node("Add", {graph.node("Mul", {graph.value().name, factor}), offset})
             : graph.node("Div", {graph.node("Sub", {graph.value().name, offset}), factor});
}

inline void onnx_group_normalization(OnnxGraph& graph, std::span<const std::size_t> sample_shape,
                                     std::size_t groups, bool scale, bool center, double epsilon) {
  graph.lay_out(true);
  const std::size_t channels = sample_shape.back();
  // [batch x groups x all of a group]
  const std::string grouped =
      graph.reshaped(graph.value().name, {0, static_cast<std::int64_t>(groups), -1});
  const std::string normalized =
      graph.node("InstanceNormalization",
                 {grouped, graph.filled("ones", groups, 1), graph.filled("zeros", groups, 0)},
                 {{"epsilon", {}, static_cast<float>(epsilon), OnnxAttribute::Kind::number}});
  std::vector<std::int64_t> shape = {-1, static_cast<std::int64_t>(channels)};
  std::vector<std::size_t> of_channels = {channels};
  for (std::size_t i = 0; i + 1 < sample_shape.size(); ++i) {
    shape.push_back(static_cast<std::int64_t>(sample_shape[i]));
    of_channels.push_back(1);
  }
  graph.value().name = graph.reshaped(normalized, shape);
  const auto apply = [&](const char* op) {
    ExportedArray array = graph.take(true);
    array.shape = of_channels;
    graph.value().name = graph.node(op, {graph.value().name, graph.weight(array)});
  };
  if (scale) apply("Mul");
  if (center) apply("Add");
}

template <std::size_t Units, class A, DenseOptions Options>
struct OnnxOperator<Dense<Units, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_dense(graph, Options.use_bias);
    write_activation<A>(graph);
  }
};

template <class A, BatchNormalizationOptions Options>
struct OnnxOperator<BatchNormalization<A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(In::rank == 1 || In::rank == 3,
                  "lockstep: export_onnx takes BatchNormalization of flat samples and of images");
    onnx_batch_normalization(graph, In::extents[In::rank - 1], Options.scale, Options.center,
                             Options.epsilon);
    write_activation<A>(graph);
  }
};

template <LayerNormalizationOptions Options>
struct OnnxOperator<LayerNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_layer_normalization(graph, In::extents[In::rank - 1], Options.scale, Options.center,
                             Options.epsilon);
  }
};

template <int Groups, GroupNormalizationOptions Options>
struct OnnxOperator<GroupNormalization<Groups, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(
        is_sequence<In> ? In::rank == 2 : In::rank <= 3,
        "lockstep: export_onnx takes GroupNormalization of flat samples, of images, and of "
        "sequences of flat tokens");
    onnx_group_normalization(
        graph, In::extents,
        Groups == -1 ? In::extents[In::rank - 1] : static_cast<std::size_t>(Groups), Options.scale,
        Options.center, Options.epsilon);
  }
};
template <NormalizationOptions Options>
struct OnnxOperator<Normalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_normalization(graph, Options.invert);
  }
};
template <RMSNormalizationOptions Options>
struct OnnxOperator<RMSNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_rms_normalization(graph, Options.epsilon);
  }
};

template <std::size_t... Dims>
struct OnnxOperator<Permute<Dims...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, sizeof...(Dims)> dims{Dims...};
    onnx_permute(graph, dims);
  }
};
template <std::size_t Begin, std::size_t Count>
struct OnnxOperator<Slice<Begin, Count>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> begin{Begin}, end{Begin + Count};
    onnx_slice(graph, begin, end);
  }
};

template <>
struct OnnxOperator<Flatten> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> shape{In::size};
    graph.reshape(shape);
  }
};
template <std::size_t... Extents>
struct OnnxOperator<Reshape<Extents...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, sizeof...(Extents)> shape{Extents...};
    graph.reshape(shape);
  }
};

/// A window over volumes, depth, height and width of everything; over images, height and width; or
/// over a sequence, where the first number counts.
struct OnnxWindow {
  using Numbers = std::array<std::size_t, 3>;
  std::size_t rank;  ///< 3, 2 or 1
  Numbers kernel;
  Numbers stride;
  Numbers dilation;
  Numbers begin;  ///< padding in front, above and left
  Numbers end;    ///< behind, below and right
};

/// `is_depthwise`: the filters are separate for each channel, whatever `groups` says.
void onnx_convolution(OnnxGraph& graph, const OnnxWindow& window, std::size_t groups, bool use_bias,
                      bool is_depthwise);
/// `outputs`: rows and columns of the result, which may be more than the windows cover.
void onnx_transposed_convolution(OnnxGraph& graph, const OnnxWindow& window,
                                 const std::size_t (&outputs)[2], const std::size_t (&inputs)[2],
                                 bool use_bias);
void onnx_pool(OnnxGraph& graph, std::string_view op, const OnnxWindow& window);
void onnx_global_pool(OnnxGraph& graph, std::string_view op);

/// The numbers of the extents that count.
inline std::vector<std::int64_t> onnx_ints(const OnnxWindow& window,
                                           const OnnxWindow::Numbers& numbers) {
  return {numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(window.rank)};
}

inline std::vector<std::int64_t> onnx_pads(const OnnxWindow& window) {
  std::vector<std::int64_t> pads = onnx_ints(window, window.begin);
  for (const std::int64_t end : onnx_ints(window, window.end)) pads.push_back(end);
  return pads;
}

inline void onnx_convolution(OnnxGraph& graph, const OnnxWindow& window, std::size_t groups,
                             bool use_bias, bool is_depthwise) {
  graph.lay_out(true);
  // [height x width x channels x filters] becomes [filters x channels x height x width]; a
  // depthwise kernel becomes [channels * filters x 1 x height x width]. A kernel over a sequence
  // has one extent in place of height and width, and one over volumes three.
  const ExportedArray& kernel = graph.take(true);
  const std::size_t rank = window.rank, channels = kernel.shape[rank],
                    filters = kernel.shape[rank + 1],
                    pixels = kernel.values.size() / (channels * filters);
  ExportedArray turned{
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
  std::vector<std::string> inputs = {graph.value().name, graph.weight(turned)};
  if (use_bias) inputs.push_back(graph.weight(graph.take(true)));
  const auto all = [&](const OnnxWindow::Numbers& numbers) { return onnx_ints(window, numbers); };
  const auto group = static_cast<std::int64_t>(is_depthwise ? channels : groups);
  graph.value().name = graph.node("Conv", inputs,
                                  {{"kernel_shape", all(window.kernel)},
                                   {"strides", all(window.stride)},
                                   {"dilations", all(window.dilation)},
                                   {"pads", onnx_pads(window)},
                                   {"group", {group}, 0, OnnxAttribute::Kind::one_int}});
}

inline void onnx_pool(OnnxGraph& graph, std::string_view op, const OnnxWindow& window) {
  graph.lay_out(true);
  graph.value().name = graph.node(op, {graph.value().name},
                                  {{"kernel_shape", onnx_ints(window, window.kernel)},
                                   {"strides", onnx_ints(window, window.stride)},
                                   {"pads", onnx_pads(window)}});
}

inline void onnx_global_pool(OnnxGraph& graph, std::string_view op) {
  graph.lay_out(true);
  const std::string pooled = graph.node(op, {graph.value().name});
  graph.value() = {.name = graph.node("Flatten", {pooled}), .rank = 1};
}

inline void onnx_transposed_convolution(OnnxGraph& graph, const OnnxWindow& window,
                                        const std::size_t (&outputs)[2],
                                        const std::size_t (&inputs)[2], bool use_bias) {
  graph.lay_out(true);
  // [height x width x filters x channels] becomes [channels x filters x height x width].
  const ExportedArray& kernel = graph.take(true);
  const std::size_t pixels = kernel.shape[0] * kernel.shape[1], filters = kernel.shape[2],
                    channels = kernel.shape[3];
  ExportedArray turned{.name = kernel.name,
                       .shape = {channels, filters, kernel.shape[0], kernel.shape[1]},
                       .values = std::vector<float>(kernel.values.size())};
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t f = 0; f < filters; ++f)
      for (std::size_t c = 0; c < channels; ++c)
        turned.values[(c * filters + f) * pixels + p] =
            kernel.values[(p * filters + f) * channels + c];
  std::vector<std::string> arguments = {graph.value().name, graph.weight(turned)};
  if (use_bias) arguments.push_back(graph.weight(graph.take(true)));
  // Rows that the windows cover beyond the result are cut off; rows of the result that no window
  // covers, as the stride is larger, hold the bias alone.
  std::vector<std::int64_t> pads(4, 0), more(2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t covered = (inputs[i] - 1) * window.stride[i] +
                                (window.kernel[i] - 1) * window.dilation[i] + 1,
                      wanted = outputs[i] + window.begin[i];
    pads[i] = static_cast<std::int64_t>(window.begin[i]);
    pads[2 + i] = static_cast<std::int64_t>(covered > wanted ? covered - wanted : 0);
    more[i] = static_cast<std::int64_t>(wanted > covered ? wanted - covered : 0);
  }
  graph.value().name = graph.node("ConvTranspose", arguments,
                                  {{"kernel_shape", onnx_ints(window, window.kernel)},
                                   {"strides", onnx_ints(window, window.stride)},
                                   {"dilations", onnx_ints(window, window.dilation)},
                                   {"pads", pads},
                                   {"output_padding", more}});
}

/// Returns the table. `mask_zero`: positions whose id is 0 are masked.
const ExportedArray& onnx_embedding(OnnxGraph& graph, bool mask_zero);
void onnx_position_embedding(OnnxGraph& graph, std::size_t positions);
/// Tokens, or samples, of `features` numbers that all equal `value` become zero; tokens are masked.
void onnx_masking(OnnxGraph& graph, std::size_t features, double value);
/// The mean over the positions that count: of a sequence, flat samples.
void onnx_masked_mean(OnnxGraph& graph, std::size_t positions);

inline const ExportedArray& onnx_embedding(OnnxGraph& graph, bool mask_zero) {
  if (mask_zero)
    graph.set_mask(graph.node(
        "Cast", {graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_bool)})},
        {onnx_int("to", onnx::type_float)}));
  const ExportedArray& table = graph.take(true);
  const std::string ids =
      graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_int64)});
  graph.value() = {.name = graph.rows_of(table, ids), .rank = 2};
  return table;
}

inline void onnx_position_embedding(OnnxGraph& graph, std::size_t positions) {
  graph.lay_out(false);
  ExportedArray rows = graph.take(true);
  rows.values.resize(positions * rows.shape[1]);
  rows.shape[0] = positions;
  graph.value().name = graph.node("Add", {graph.value().name, graph.weight(rows)});
}

inline void onnx_masking(OnnxGraph& graph, std::size_t features, double value) {
  graph.lay_out(false);
  const OnnxGraph::Value x = graph.value();
  const std::string rows = graph.reshaped(x.name, {-1, static_cast<std::int64_t>(features)});
  const std::string equal = graph.node("Cast", {graph.node("Equal", {rows, graph.number(value)})},
                                       {onnx_int("to", onnx::type_float)});
  const std::string masked = graph.node("ReduceMin", {equal}, {{"axes", {-1}}});
  const std::string counts = graph.node("Sub", {graph.number(1), masked});
  const std::vector<std::int64_t> ones(x.rank, 1);
  std::vector<std::int64_t> shape = {-1};
  shape.insert(shape.end(), ones.begin(), ones.end());
  graph.value().name = graph.node("Mul", {x.name, graph.reshaped(counts, shape)});
  if (graph.positions() > 0)
    graph.set_mask(graph.reshaped(counts, {-1, static_cast<std::int64_t>(graph.positions())}));
}

inline void onnx_masked_mean(OnnxGraph& graph, std::size_t positions) {
  graph.lay_out(false);
  const std::string axes = graph.constant("axes", {1});
  const std::string weights =
      graph.reshaped(graph.mask(), {-1, static_cast<std::int64_t>(positions), 1});
  const std::string sum =
      graph.node("ReduceSum", {graph.node("Mul", {graph.value().name, weights}), axes},
                 {onnx_int("keepdims", 0)});
  // The mean of none is zero.
  const std::string count =
      graph.node("Max", {graph.node("ReduceSum", {graph.mask(), axes}), graph.number(1)});
  graph.value() = {.name = graph.node("Div", {sum, count}), .rank = 1};
}

/// The window of a layer over samples of these extents.
constexpr OnnxWindow onnx_window_over(std::span<const std::size_t> extents, OnnxWindow window,
                                      Padding padding) {
  window.rank = extents.size();
  for (std::size_t i = 0; i < window.rank; ++i) {
    const std::size_t covered = (window.kernel[i] - 1) * window.dilation[i] + 1;
    const std::size_t outputs = window_outputs(extents[i], covered, window.stride[i], padding);
    const std::size_t needed = (outputs - 1) * window.stride[i] + covered;
    window.begin[i] = window_padding(extents[i], covered, window.stride[i], padding);
    const std::size_t there = extents[i] + window.begin[i];
    window.end[i] = needed > there ? needed - there : 0;
  }
  return window;
}
/// Over images of shape In.
template <class In>
constexpr OnnxWindow onnx_window(Extent2D kernel, Extent2D stride, Extent2D dilation,
                                 Padding padding) {
  return onnx_window_over(std::span(In::extents).template first<2>(),
                          {2,
                           {kernel.height, kernel.width},
                           {stride.height, stride.width},
                           {dilation.height, dilation.width},
                           {},
                           {}},
                          padding);
}
/// Over volumes.
template <class In>
constexpr OnnxWindow onnx_window(Extent3D kernel, Extent3D stride, Extent3D dilation,
                                 Padding padding) {
  return onnx_window_over(std::span(In::extents).template first<3>(),
                          {3,
                           {kernel.depth, kernel.height, kernel.width},
                           {stride.depth, stride.height, stride.width},
                           {dilation.depth, dilation.height, dilation.width},
                           {},
                           {}},
                          padding);
}

template <std::size_t Filters, Extent3D Kernel, class A, Conv3DOptions Options>
struct OnnxOperator<Conv3D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DOptions Options>
struct OnnxOperator<Conv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};

template <Extent2D Kernel, class A, DepthwiseConv2DOptions Options>
struct OnnxOperator<DepthwiseConv2D<Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1,
        Options.use_bias, true);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, SeparableConv2DOptions Options>
struct OnnxOperator<SeparableConv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1,
        false, true);
    onnx_convolution(graph, {2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1, Options.use_bias,
                     false);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DTransposeOptions Options>
struct OnnxOperator<Conv2DTranspose<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    // The padding of the convolution whose input is this layer's output.
    using Out = typename Conv2DTranspose<Filters, Kernel, A, Options>::template Output<In>;
    onnx_transposed_convolution(
        graph, onnx_window<Out>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        {Out::extents[0], Out::extents[1]}, {In::extents[0], In::extents[1]}, Options.use_bias);
    write_activation<A>(graph);
  }
};

template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<MaxPooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(
        graph, "MaxPool",
        onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), Extent2D(1), Options.padding));
  }
};
template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<AveragePooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(
        graph, "AveragePool",
        onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), Extent2D(1), Options.padding));
  }
};
template <Extent3D Pool, Pooling3DOptions Options>
struct OnnxOperator<MaxPooling3D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(
        graph, "MaxPool",
        onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), Extent3D(1), Options.padding));
  }
};
template <Extent3D Pool, Pooling3DOptions Options>
struct OnnxOperator<AveragePooling3D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(
        graph, "AveragePool",
        onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), Extent3D(1), Options.padding));
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling3D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalAveragePool");
  }
};
template <>
struct OnnxOperator<GlobalMaxPooling3D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalMaxPool");
  }
};
template <Extent3D Size>
struct OnnxOperator<UpSampling3D<Size>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 3> factors{Size.depth, Size.height, Size.width};
    onnx_up_sampling(graph, factors, false);
  }
};
template <Margins3D Margins>
struct OnnxOperator<ZeroPadding3D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pad(graph, std::array{Margins.front, Margins.plane.top, Margins.plane.left},
             std::array{Margins.back, Margins.plane.bottom, Margins.plane.right});
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalAveragePool");
  }
};
template <>
struct OnnxOperator<GlobalMaxPooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalMaxPool");
  }
};

template <Margins2D Margins>
struct OnnxOperator<ZeroPadding2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pad(graph, std::array{Margins.top, Margins.left},
             std::array{Margins.bottom, Margins.right});
  }
};

template <Margins2D Margins>
struct OnnxOperator<Cropping2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 2> begin{Margins.top, Margins.left},
        end{In::extents[0] - Margins.bottom, In::extents[1] - Margins.right};
    onnx_slice(graph, begin, end);
  }
};
template <Extent2D Size, UpSampling2DOptions Options>
struct OnnxOperator<UpSampling2D<Size, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 2> factors{Size.height, Size.width};
    onnx_up_sampling(graph, factors, Options.interpolation == Interpolation::bilinear);
  }
};

template <std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options>
struct OnnxOperator<Embedding<Vocabulary, Width, Options>> {
  static const ExportedArray& write_table(OnnxGraph& graph) {
    return onnx_embedding(graph, Options.mask_zero);
  }
  template <class In>
  static void write(OnnxGraph& graph) {
    write_table(graph);
  }
};
template <std::size_t MaxPositions, PositionEmbeddingOptions Options>
struct OnnxOperator<PositionEmbedding<MaxPositions, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_position_embedding(graph, In::positions);
  }
};
template <>
struct OnnxOperator<ToSequence> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.reshape(ToSequence::Output<In>::extents);
  }
};
template <std::size_t Count>
struct OnnxOperator<RepeatVector<Count>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_repeat_vector(graph, Count, In::size);
  }
};
template <MaskValue Value>
struct OnnxOperator<Masking<Value>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_masking(graph, In::size, Value.value);
  }
};

/// A window over the positions of a sequence.
template <class In>
constexpr OnnxWindow onnx_window1d(std::size_t kernel, std::size_t stride, std::size_t dilation,
                                   Padding padding) {
  constexpr std::array<std::size_t, 1> extents{positions_of<In>};
  return onnx_window_over(extents, {1, {kernel}, {stride}, {dilation}, {}, {}}, padding);
}

template <std::size_t Filters, std::size_t Kernel, class A, Conv1DOptions Options>
struct OnnxOperator<Conv1D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_convolution(
        graph, onnx_window1d<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};
template <std::size_t Pool, Pooling1DOptions Options>
struct OnnxOperator<MaxPooling1D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t stride = Options.stride > 0 ? Options.stride : Pool;
    onnx_pool(graph, "MaxPool", onnx_window1d<In>(Pool, stride, 1, Options.padding));
  }
};
template <std::size_t Pool, Pooling1DOptions Options>
struct OnnxOperator<AveragePooling1D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t stride = Options.stride > 0 ? Options.stride : Pool;
    onnx_pool(graph, "AveragePool", onnx_window1d<In>(Pool, stride, 1, Options.padding));
  }
};
template <std::size_t Size>
struct OnnxOperator<UpSampling1D<Size>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> factors{Size};
    onnx_up_sampling(graph, factors, false);
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling1D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    if (graph.mask().empty())
      onnx_global_pool(graph, "GlobalAveragePool");
    else
      onnx_masked_mean(graph, positions_of<In>);
  }
};
/// (Masked positions count too, as in Keras.)
template <>
struct OnnxOperator<GlobalMaxPooling1D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_global_pool(graph, "GlobalMaxPool");
  }
};
template <std::size_t Left, std::size_t Right>
struct OnnxOperator<ZeroPadding1D<Left, Right>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pad_positions(graph, Left, Right);
  }
};
template <std::size_t Left, std::size_t Right>
struct OnnxOperator<Cropping1D<Left, Right>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> begin{Left}, end{positions_of<In> - Right};
    onnx_slice(graph, begin, end);
  }
};

}}}  // namespace lockstep::detail
