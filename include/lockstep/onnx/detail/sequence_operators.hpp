// What layers over sequences are in ONNX.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/average_pooling1d.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/cropping1d.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/global_average_pooling1d.hpp"
#include "lockstep/layers/global_max_pooling1d.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/max_pooling1d.hpp"
#include "lockstep/layers/position_embedding.hpp"
#include "lockstep/layers/repeat_vector.hpp"
#include "lockstep/layers/to_sequence.hpp"
#include "lockstep/layers/up_sampling1d.hpp"
#include "lockstep/layers/zero_padding1d.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/onnx/detail/activation_operators.hpp"
#include "lockstep/onnx/detail/operator.hpp"
#include "lockstep/onnx/detail/shapes.hpp"
#include "lockstep/onnx/detail/tokens.hpp"
#include "lockstep/onnx/detail/windows.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
