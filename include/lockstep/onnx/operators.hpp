// What each layer is in ONNX.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/activation.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/average_pooling1d.hpp"
#include "lockstep/layers/average_pooling2d.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/cropping1d.hpp"
#include "lockstep/layers/cropping2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/depthwise_conv2d.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/gaussian_dropout.hpp"
#include "lockstep/layers/gaussian_noise.hpp"
#include "lockstep/layers/global_average_pooling1d.hpp"
#include "lockstep/layers/global_average_pooling2d.hpp"
#include "lockstep/layers/global_max_pooling1d.hpp"
#include "lockstep/layers/global_max_pooling2d.hpp"
#include "lockstep/layers/gru.hpp"
#include "lockstep/layers/identity.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/lstm.hpp"
#include "lockstep/layers/max_pooling1d.hpp"
#include "lockstep/layers/max_pooling2d.hpp"
#include "lockstep/layers/multi_head_attention.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/permute.hpp"
#include "lockstep/layers/position_embedding.hpp"
#include "lockstep/layers/repeat_vector.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshape.hpp"
#include "lockstep/layers/rms_normalization.hpp"
#include "lockstep/layers/separable_conv2d.hpp"
#include "lockstep/layers/simple_rnn.hpp"
#include "lockstep/layers/slice.hpp"
#include "lockstep/layers/spatial_dropout1d.hpp"
#include "lockstep/layers/spatial_dropout2d.hpp"
#include "lockstep/layers/to_sequence.hpp"
#include "lockstep/layers/up_sampling1d.hpp"
#include "lockstep/layers/up_sampling2d.hpp"
#include "lockstep/layers/zero_padding1d.hpp"
#include "lockstep/layers/zero_padding2d.hpp"
#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
    graph.relu6();
  else if constexpr (is_leaky_relu<F>)
    graph.leaky_relu(leaky_slope<F>);
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
    graph.silu();
  else if constexpr (std::is_same_v<F, Mish>)
    graph.mish();
  else if constexpr (std::is_same_v<F, GELU>)
    graph.gelu();
  else if constexpr (std::is_same_v<F, GELUTanh>)
    graph.gelu_tanh();
  else
    static_assert(!sizeof(F),
                  "lockstep: export_onnx knows no ONNX operator for this activation function");
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

/// write<In>(graph): what a layer does to samples of shape In.
template <class L>
struct OnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {
    static_assert(
        !sizeof(L),
        "lockstep: export_onnx knows no ONNX operator for this layer; see onnx/operators.hpp");
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

template <std::size_t Units, class A, DenseOptions Options>
struct OnnxOperator<Dense<Units, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.dense(Options.use_bias);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DOptions Options>
struct OnnxOperator<Conv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.convolution(
        onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};

template <Extent2D Kernel, class A, DepthwiseConv2DOptions Options>
struct OnnxOperator<DepthwiseConv2D<Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.convolution(
        onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1,
        Options.use_bias, true);
    write_activation<A>(graph);
  }
};

template <std::size_t Filters, Extent2D Kernel, class A, SeparableConv2DOptions Options>
struct OnnxOperator<SeparableConv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.convolution(
        onnx_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding), 1, false,
        true);
    graph.convolution({2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 1, Options.use_bias, false);
    write_activation<A>(graph);
  }
};

template <class A, BatchNormalizationOptions Options>
struct OnnxOperator<BatchNormalization<A, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    static_assert(In::rank == 1 || In::rank == 3,
                  "lockstep: export_onnx takes BatchNormalization of flat samples and of images");
    graph.batch_normalization(In::extents[In::rank - 1], Options.scale, Options.center,
                              Options.epsilon);
    write_activation<A>(graph);
  }
};

template <LayerNormalizationOptions Options>
struct OnnxOperator<LayerNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.layer_normalization(In::extents[In::rank - 1], Options.scale, Options.center,
                              Options.epsilon);
  }
};

template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<MaxPooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pool("MaxPool",
               onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <Extent2D Pool, PoolingOptions Options>
struct OnnxOperator<AveragePooling2D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pool("AveragePool",
               onnx_window<In>(Pool, pooling_stride(Pool, Options.stride), 1, Options.padding));
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.global_pool("GlobalAveragePool");
  }
};
template <>
struct OnnxOperator<GlobalMaxPooling2D> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.global_pool("GlobalMaxPool");
  }
};

template <Margins2D Margins>
struct OnnxOperator<ZeroPadding2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pad(Margins.top, Margins.bottom, Margins.left, Margins.right);
  }
};

template <Margins2D Margins>
struct OnnxOperator<Cropping2D<Margins>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 2> begin{Margins.top, Margins.left},
        end{In::extents[0] - Margins.bottom, In::extents[1] - Margins.right};
    graph.slice(begin, end);
  }
};
template <Extent2D Size, UpSampling2DOptions Options>
struct OnnxOperator<UpSampling2D<Size, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 2> factors{Size.height, Size.width};
    graph.up_sampling(factors, Options.interpolation == Interpolation::bilinear);
  }
};
template <std::size_t... Dims>
struct OnnxOperator<Permute<Dims...>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, sizeof...(Dims)> dims{Dims...};
    graph.permute(dims);
  }
};
template <std::size_t Begin, std::size_t Count>
struct OnnxOperator<Slice<Begin, Count>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> begin{Begin}, end{Begin + Count};
    graph.slice(begin, end);
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
    graph.softmax();
  }
};
template <Number Scale, Number Offset>
struct OnnxOperator<Rescaling<Scale, Offset>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.rescale(Scale.value, Offset.value);
  }
};

template <NormalizationOptions Options>
struct OnnxOperator<Normalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.normalization(Options.invert);
  }
};
template <RMSNormalizationOptions Options>
struct OnnxOperator<RMSNormalization<Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.rms_normalization(Options.epsilon);
  }
};

// --- sequences ---

template <std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options>
struct OnnxOperator<Embedding<Vocabulary, Width, Options>> {
  /// Returns the name of the table.
  static std::string write_table(OnnxGraph& graph) {
    static_assert(
        !Options.mask_zero,
        "lockstep: export_onnx knows no masks: an Embedding with mask_zero cannot be exported");
    return graph.embedding();
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
    graph.position_embedding(In::positions);
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
    graph.repeat_vector(Count, In::size);
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
    graph.convolution(
        onnx_window1d<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
        Options.groups, Options.use_bias, false);
    write_activation<A>(graph);
  }
};
template <std::size_t Pool, Pooling1DOptions Options>
struct OnnxOperator<MaxPooling1D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t stride = Options.stride > 0 ? Options.stride : Pool;
    graph.pool("MaxPool", onnx_window1d<In>(Pool, stride, 1, Options.padding));
  }
};
template <std::size_t Pool, Pooling1DOptions Options>
struct OnnxOperator<AveragePooling1D<Pool, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::size_t stride = Options.stride > 0 ? Options.stride : Pool;
    graph.pool("AveragePool", onnx_window1d<In>(Pool, stride, 1, Options.padding));
  }
};
template <std::size_t Size>
struct OnnxOperator<UpSampling1D<Size>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> factors{Size};
    graph.up_sampling(factors, false);
  }
};
template <>
struct OnnxOperator<GlobalAveragePooling1D> : OnnxOperator<GlobalAveragePooling2D> {};
template <>
struct OnnxOperator<GlobalMaxPooling1D> : OnnxOperator<GlobalMaxPooling2D> {};
template <std::size_t Left, std::size_t Right>
struct OnnxOperator<ZeroPadding1D<Left, Right>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    graph.pad_positions(Left, Right);
  }
};
template <std::size_t Left, std::size_t Right>
struct OnnxOperator<Cropping1D<Left, Right>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    constexpr std::array<std::size_t, 1> begin{Left}, end{positions_of<In> - Right};
    graph.slice(begin, end);
  }
};

template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options, class Queries,
          class Values>
constexpr OnnxAttention onnx_attention() {
  return {.heads = Heads,
          .key_dim = KeyDim,
          .value_dim = Options.value_dim == 0 ? KeyDim : Options.value_dim,
          .queries = positions_of<Queries>,
          .keys = positions_of<Values>,
          .use_bias = Options.use_bias,
          .causal = Options.use_causal_mask};
}
template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options>
struct OnnxOperator<MultiHeadAttention<Heads, KeyDim, Options>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    const OnnxGraph::Value x = graph.value();
    graph.attention(onnx_attention<Heads, KeyDim, Options, In, In>(), x, x);
  }
};

/// What an operator of ONNX needs to know of a recurrent layer.
template <class L>
struct OnnxRecurrent;
template <std::size_t Units, LSTMOptions Options>
struct OnnxRecurrent<LSTM<Units, Options>> {
  static constexpr OnnxRecurrence layer{
      "LSTM", Units, 0, Options.use_bias, Options.return_sequences, Options.go_backwards, false};
};
template <std::size_t Units, GRUOptions Options>
struct OnnxRecurrent<GRU<Units, Options>> {
  static constexpr OnnxRecurrence layer{"GRU",
                                        Units,
                                        0,
                                        Options.use_bias,
                                        Options.return_sequences,
                                        Options.go_backwards,
                                        false,
                                        Options.reset_after};
};
template <std::size_t Units, SimpleRNNOptions Options>
struct OnnxRecurrent<SimpleRNN<Units, Options>> {
  static constexpr OnnxRecurrence layer{
      "RNN", Units, 0, Options.use_bias, Options.return_sequences, Options.go_backwards, false};
};
template <class L>
  requires requires { OnnxRecurrent<L>::layer; }
struct OnnxOperator<L> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxRecurrence layer = OnnxRecurrent<L>::layer;
    layer.positions = positions_of<In>;
    graph.recurrence(layer);
  }
};
template <class L, MergeMode Merge>
struct OnnxOperator<Bidirectional<L, Merge>> {
  template <class In>
  static void write(OnnxGraph& graph) {
    OnnxRecurrence layer = OnnxRecurrent<L>::layer;
    layer.positions = positions_of<In>;
    layer.bidirectional = true;
    if (Merge == MergeMode::mul) layer.merge = "ReduceProd";
    if (Merge == MergeMode::sum || Merge == MergeMode::ave) layer.merge = "ReduceMean";
    if (Merge == MergeMode::sum) layer.factor = 2;
    graph.recurrence(layer);
  }
};

// --- containers ---

/// A layer, as a container has it: of a sequence it is given all, or each token by itself.
template <class In, class L>
void write_layer(OnnxGraph& graph) {
  if constexpr (std::is_base_of_v<NoOnnxOperator, OnnxOperator<L>> ||
                requires { L::layer_count; }) {
    OnnxOperator<L>::template write<In>(graph);
  } else if constexpr (is_sequence<In> && !SequenceLayer<L>) {
    graph.to_tokens(TokenOf<In>::extents);
    OnnxOperator<L>::template write<TokenOf<In>>(graph);
    graph.keep_tokens();
  } else {
    graph.to_sequences(In::extents);
    OnnxOperator<L>::template write<In>(graph);
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
  const OnnxGraph::Value input = graph.value();
  std::vector<OnnxGraph::Value> outputs;
  const auto write_branch = [&]<class Branch>(std::type_identity<Branch>) {
    graph.set_value(input);
    write_layer<In, Branch>(graph);
    graph.to_sequences(OutputShape<Branch, In>::Type::extents);
    outputs.push_back(graph.value());
  };
  (write_branch(std::type_identity<Branches>{}), ...);
  graph.merge(op, std::move(outputs), factor);
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
    write_layer<In, QueryBranch>(graph);
    graph.to_sequences(Queries::extents);
    const OnnxGraph::Value queries = graph.value();
    graph.set_value(input);
    write_layer<In, ValueBranch>(graph);
    graph.to_sequences(Values::extents);
    const OnnxGraph::Value values = graph.value();
    graph.attention(onnx_attention<Heads, KeyDim, Options, Queries, Values>(), queries, values);
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
    graph.tied_logits(table);
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
