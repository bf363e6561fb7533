// What containers are in ONNX: the layers of them, one after the other or beside each other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/extra/onnx/detail/attention_operators.hpp"
#include "lockstep/extra/onnx/detail/operator.hpp"
#include "lockstep/extra/onnx/graph.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/tied_head.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A layer, as a container has it: of a sequence it is given all, or each token by itself.
template <class In, class L>
void write_layer(OnnxGraph& graph) {
  if constexpr (requires { L::layer_count; }) {
    OnnxOperator<L>::template write<In>(graph);
  } else {
    const std::string mask = graph.mask();
    if constexpr (std::is_base_of_v<NoOnnxOperator, OnnxOperator<L>>) {
      OnnxOperator<L>::template write<In>(graph);
    } else if constexpr (is_sequence<In> && !SequenceLayer<L>) {
      graph.to_tokens(TokenOf<In>::extents);
      graph.set_positions(positions_of<In>);
      OnnxOperator<L>::template write<TokenOf<In>>(graph);
      graph.set_positions(0);
      graph.keep_tokens();
    } else {
      graph.to_sequences(In::extents);
      OnnxOperator<L>::template write<In>(graph);
    }
    // A mask ends at a layer that neither hands it on nor makes another.
    if (!keeps_mask<L> && graph.mask() == mask) graph.set_mask({});
  }
}

/// The layers one after the other.
template <class In, class First, class... Rest>
void write_layers(OnnxGraph& graph) {
  write_layer<In, First>(graph);
  if constexpr (sizeof...(Rest) > 0)
    write_layers<typename OutputShape<First, In>::Type, Rest...>(graph);
}
template <class... Layers>
struct OnnxOperator<Sequential<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    write_layers<In, Layers...>(graph);
  }
};
template <std::size_t Times, class L>
struct OnnxOperator<Repeat<Times, L>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    for (std::size_t i = 0; i < Times; ++i) write_layer<In, L>(graph);
  }
};

/// The layers beside each other.
template <class In, class... Branches>
void write_branches(OnnxGraph& graph, std::string_view op, double factor) {
  OnnxBranches branches(graph);
  const auto write_branch = [&]<class Branch>(std::type_identity<Branch>) {
    branches.begin();
    write_layer<In, Branch>(graph);
    graph.to_sequences(OutputShape<Branch, In>::Type::extents);
    branches.end();
  };
  (write_branch(std::type_identity<Branches>{}), ...);
  branches.merge(op, factor);
}
template <class Merge, class... Branches>
struct OnnxOperator<Parallel<Merge, Branches...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr double mean =
        std::is_same_v<Merge, Average> ? 1.0 / static_cast<double>(sizeof...(Branches)) : 1.0;
    if constexpr (std::is_same_v<Merge, Add> || std::is_same_v<Merge, Average>)
      write_branches<In, Branches...>(graph, "Add", mean);
    else if constexpr (std::is_same_v<Merge, Multiply>)
      write_branches<In, Branches...>(graph, "Mul", 1);
    else if constexpr (std::is_same_v<Merge, Concatenate>)
      write_branches<In, Branches...>(graph, "Concat", 1);
    else
      static_assert(!sizeof(Merge), "lockstep: export_onnx knows no ONNX operator for this merge");
  }
};
template <class... Layers>
struct OnnxOperator<Residual<Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    if constexpr (sizeof...(Layers) == 2 && (is_sequential<Layers> && ...))
      write_branches<In, Layers...>(graph, "Add", 1);
    else
      write_branches<In, Identity, Sequential<Layers...>>(graph, "Add", 1);
  }
};

template <std::size_t Heads, std::size_t KeyDim, class QueryBranch, class ValueBranch,
          MultiHeadAttentionOptions Options>
struct OnnxOperator<CrossAttention<Heads, KeyDim, QueryBranch, ValueBranch, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    using Queries = typename OutputShape<QueryBranch, In>::Type;
    using Values = typename OutputShape<ValueBranch, In>::Type;
    const OnnxGraph::Value input = graph.value();
    const std::string mask = graph.mask();
    write_layer<In, QueryBranch>(graph);
    graph.to_sequences(Queries::extents);
    const OnnxGraph::Value queries = graph.value();
    const std::string query_mask = graph.mask();
    graph.set_value(input);
    graph.set_mask(mask);
    write_layer<In, ValueBranch>(graph);
    graph.to_sequences(Values::extents);
    const OnnxGraph::Value values = graph.value();
    onnx_attention(graph, onnx_attention_size<Heads, KeyDim, Options, Queries, Values>(), queries,
                   values, query_mask, graph.mask());
    graph.set_mask(query_mask);
  }
};

template <class EmbeddingLayer, class... Layers>
struct OnnxOperator<TiedHead<EmbeddingLayer, Layers...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    using Tokens = typename EmbeddingLayer::template Output<In>;
    const std::string table = OnnxOperator<EmbeddingLayer>::write_table(graph);
    write_layers<Tokens, Layers...>(graph);
    graph.to_sequences(Tokens::extents);
    onnx_tied_logits(graph, table);
  }
};

template <class L>
struct OnnxOperator<Frozen<L>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t trained = variables_of<L, In>().size(),
                          others = state_variables_of<L, In>().size();
    const auto before = graph.freeze(trained);
    write_layer<In, L>(graph);
    graph.unfreeze(before, trained + others);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
