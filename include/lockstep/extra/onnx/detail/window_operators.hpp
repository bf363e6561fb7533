// Convolution, pooling and what else slides over images and sequences in ONNX.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/extra/onnx/detail/flat_operators.hpp"
#include "lockstep/extra/onnx/detail/operator.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/up_sampling.hpp"
#include "lockstep/layers/window.hpp"
#include "lockstep/network/repeat.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// `is_depthwise`: the filters are separate for each channel, whatever `groups` says.
void onnx_convolution(OnnxGraph& graph, const OnnxWindow& window, std::size_t groups, bool use_bias,
                      bool is_depthwise);
/// `outputs`: rows and columns of the result, which may be more than the windows cover.
void onnx_transposed_convolution(OnnxGraph& graph, const OnnxWindow& window,
                                 const std::size_t (&outputs)[2], const std::size_t (&inputs)[2],
                                 bool use_bias);
void onnx_pool(OnnxGraph& graph, std::string_view op, const OnnxWindow& window);
void onnx_global_pool(OnnxGraph& graph, std::string_view op);

/// Of height and width, or of the one extent of a sequence.
inline std::vector<std::int64_t> onnx_ints(const OnnxWindow& window,
                                           const std::size_t (&numbers)[2]) {
  std::vector<std::int64_t> ints;
  for (std::size_t i = 0; i < window.rank; ++i)
    ints.push_back(static_cast<std::int64_t>(numbers[i]));
  return ints;
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
  // has one extent in place of height and width.
  const OnnxArray& kernel = graph.take(true);
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
  std::vector<std::string> inputs = {graph.value().name, graph.weight(turned)};
  if (use_bias) inputs.push_back(graph.weight(graph.take(true)));
  const auto both = [&](const std::size_t(&numbers)[2]) { return onnx_ints(window, numbers); };
  const auto group = static_cast<std::int64_t>(is_depthwise ? channels : groups);
  graph.value().name = graph.node("Conv", inputs,
                                  {{"kernel_shape", both(window.kernel)},
                                   {"strides", both(window.stride)},
                                   {"dilations", both(window.dilation)},
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
  const OnnxArray& kernel = graph.take(true);
  const std::size_t pixels = kernel.shape[0] * kernel.shape[1], filters = kernel.shape[2],
                    channels = kernel.shape[3];
  OnnxArray turned{.name = kernel.name,
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

/// Returns the name of the table. `mask_zero`: positions whose id is 0 are masked.
std::string onnx_embedding(OnnxGraph& graph, bool mask_zero);
void onnx_position_embedding(OnnxGraph& graph, std::size_t positions);
/// Tokens, or samples, of `features` numbers that all equal `value` become zero; tokens are masked.
void onnx_masking(OnnxGraph& graph, std::size_t features, double value);
/// The mean over the positions that count: of a sequence, flat samples.
void onnx_masked_mean(OnnxGraph& graph, std::size_t positions);

inline std::string onnx_embedding(OnnxGraph& graph, bool mask_zero) {
  if (mask_zero)
    graph.set_mask(graph.node(
        "Cast", {graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_bool)})},
        {onnx_int("to", onnx::type_float)}));
  std::string table = graph.weight(graph.take(true));
  const std::string ids =
      graph.node("Cast", {graph.value().name}, {onnx_int("to", onnx::type_int64)});
  graph.value() = {.name = graph.node("Gather", {table, ids}), .rank = 2};
  return table;
}

inline void onnx_position_embedding(OnnxGraph& graph, std::size_t positions) {
  graph.lay_out(false);
  OnnxArray rows = graph.take(true);
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

/// The window of a layer over images of shape In.
template <class In>
constexpr OnnxWindow onnx_window(Extent2D kernel, Extent2D stride, Extent2D dilation,
                                 Padding padding) {
  const Extent2D covered = dilated(kernel, dilation);
  OnnxWindow window{2,
                    {kernel.height, kernel.width},
                    {stride.height, stride.width},
                    {dilation.height, dilation.width},
                    {},
                    {}};
  const std::size_t extents[] = {covered.height, covered.width};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t outputs =
        window_outputs(In::extents[i], extents[i], window.stride[i], padding);
    const std::size_t needed = (outputs - 1) * window.stride[i] + extents[i];
    window.begin[i] = window_padding(In::extents[i], extents[i], window.stride[i], padding);
    const std::size_t there = In::extents[i] + window.begin[i];
    window.end[i] = needed > there ? needed - there : 0;
  }
  return window;
}

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
    onnx_pool(graph, "MaxPool",
              onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<AveragePooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    onnx_pool(graph, "AveragePool",
              onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
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
    onnx_pad(graph, Margins.top, Margins.bottom, Margins.left, Margins.right);
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
  /// Returns the name of the table.
  static std::string write_table(OnnxGraph& graph) {
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
  const std::size_t covered = (kernel - 1) * dilation + 1, positions = positions_of<In>;
  const std::size_t begin = window_padding(positions, covered, stride, padding);
  const std::size_t needed =
      (window_outputs(positions, covered, stride, padding) - 1) * stride + covered;
  const std::size_t there = positions + begin;
  return {1, {kernel}, {stride}, {dilation}, {begin}, {needed > there ? needed - there : 0}};
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
