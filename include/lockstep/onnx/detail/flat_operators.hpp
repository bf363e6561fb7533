// What layers are in ONNX that take samples of any kind: Dense, normalisation, other shapes.
#pragma once

#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/group_normalization.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/permute.hpp"
#include "lockstep/layers/reshape.hpp"
#include "lockstep/layers/rms_normalization.hpp"
#include "lockstep/layers/slice.hpp"
#include "lockstep/onnx/detail/activation_operators.hpp"
#include "lockstep/onnx/detail/functions.hpp"
#include "lockstep/onnx/detail/normalizations.hpp"
#include "lockstep/onnx/detail/operator.hpp"
#include "lockstep/onnx/detail/shapes.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
