// Layers as calls of the functions in runtime.hpp.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/export_header/code.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/layers/window.hpp"
#include "lockstep/model/inputs_outputs.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/saving/exported_variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The function of runtime.hpp.
template <class F>
std::string header_activation() {
  if constexpr (std::is_same_v<F, Linear>)
    return "linear";
  else if constexpr (std::is_same_v<F, ReLU>)
    return "relu";
  else if constexpr (std::is_same_v<F, ReLU6>)
    return "relu6";
  else if constexpr (std::is_same_v<F, Sigmoid>)
    return "sigmoid";
  else if constexpr (std::is_same_v<F, Tanh>)
    return "tanh";
  else if constexpr (std::is_same_v<F, ELU>)
    return "elu";
  else if constexpr (std::is_same_v<F, SELU>)
    return "selu";
  else if constexpr (std::is_same_v<F, Softplus>)
    return "softplus";
  else if constexpr (std::is_same_v<F, Softsign>)
    return "softsign";
  else if constexpr (std::is_same_v<F, Exponential>)
    return "exponential";
  else if constexpr (std::is_same_v<F, HardSigmoid>)
    return "hard_sigmoid";
  else if constexpr (std::is_same_v<F, HardSiLU>)
    return "hard_silu";
  else if constexpr (std::is_same_v<F, SiLU>)
    return "silu";
  else if constexpr (std::is_same_v<F, Mish>)
    return "mish";
  else if constexpr (std::is_same_v<F, GELU>)
    return "gelu";
  else if constexpr (std::is_same_v<F, GELUTanh>)
    return "gelu_tanh";
  else
    return []<int Percent>(std::type_identity<LeakyReLU<Percent>>) {
      return concat({"leaky_relu<", Percent, ">"});
    }(std::type_identity<F>{});
}

/// What a layer is: write<In>(code, rows) for `rows` samples, or tokens, of shape In. A layer
/// without one is an error of the compiler.
template <class L>
struct HeaderLayer {
  template <class In>
  static void write(HeaderCode&, std::size_t) {
    static_assert(!sizeof(L), "lockstep: export_header knows no code for this layer");
  }
};

/// Layers that leave a value as it is in inference.
struct NoHeaderCode {
  template <class In>
  static void write(HeaderCode&, std::size_t) {}
};
template <std::size_t... Extents>
struct HeaderLayer<Input<Extents...>> : NoHeaderCode {};
template <Probability Rate>
struct HeaderLayer<Dropout<Rate>> : NoHeaderCode {};
template <Probability Rate>
struct HeaderLayer<SpatialDropout1D<Rate>> : NoHeaderCode {};
template <Probability Rate>
struct HeaderLayer<SpatialDropout2D<Rate>> : NoHeaderCode {};
template <Probability Rate>
struct HeaderLayer<GaussianDropout<Rate>> : NoHeaderCode {};
template <Number Stddev>
struct HeaderLayer<GaussianNoise<Stddev>> : NoHeaderCode {};
template <Regularizer Penalty>
struct HeaderLayer<ActivityRegularization<Penalty>> : NoHeaderCode {};
template <>
struct HeaderLayer<Identity> : NoHeaderCode {};
template <>
struct HeaderLayer<Flatten> : NoHeaderCode {};
template <std::size_t... Extents>
struct HeaderLayer<Reshape<Extents...>> : NoHeaderCode {};
template <>
struct HeaderLayer<ToSequence> : NoHeaderCode {};

template <class F>
struct HeaderLayer<Activation<F>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    code.map(header_activation<F>());
  }
};
template <>
struct HeaderLayer<Softmax> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    constexpr std::size_t channels = In::extents[In::rank - 1];
    code.call(concat({"softmax<", channels, ">"}), rows * In::size / channels, channels, {});
  }
};
template <Number Scale, Number Offset>
struct HeaderLayer<Rescaling<Scale, Offset>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    code.scale_shift({static_cast<float>(Scale.value)}, {static_cast<float>(Offset.value)});
  }
};
template <NormalizationOptions Options>
struct HeaderLayer<Normalization<Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    const std::vector<float> mean = code.take(false).values;
    std::vector<float> scale = code.take(false).values, shift = mean;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double deviation = std::max(std::sqrt(static_cast<double>(scale[i])), 1e-7);
      scale[i] = static_cast<float>(Options.invert ? deviation : 1 / deviation);
      if (!Options.invert) shift[i] = static_cast<float>(-static_cast<double>(mean[i]) / deviation);
    }
    code.scale_shift(scale, shift);
  }
};
template <class A, BatchNormalizationOptions Options>
struct HeaderLayer<BatchNormalization<A, Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    constexpr std::size_t channels = In::extents[In::rank - 1];
    std::vector<float> scale(channels, 1.0f), shift(channels, 0.0f);
    if (Options.scale) scale = code.take(true).values;
    if (Options.center) shift = code.take(true).values;
    const std::vector<float> mean = code.take(false).values, variance = code.take(false).values;
    for (std::size_t i = 0; i < channels; ++i) {
      const double factor = static_cast<double>(scale[i]) /
                            std::sqrt(static_cast<double>(variance[i]) + Options.epsilon);
      scale[i] = static_cast<float>(factor);
      shift[i] =
          static_cast<float>(static_cast<double>(shift[i]) - static_cast<double>(mean[i]) * factor);
    }
    code.scale_shift(scale, shift);
    code.map(header_activation<A>());
  }
};
template <LayerNormalizationOptions Options>
struct HeaderLayer<LayerNormalization<Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    constexpr std::size_t channels = In::extents[In::rank - 1];
    std::vector<float> scale(channels, 1.0f), shift(channels, 0.0f);
    if (Options.scale) scale = code.take(true).values;
    if (Options.center) shift = code.take(true).values;
    const std::string factors = code.constants("gamma", scale),
                      terms = code.constants("beta", shift),
                      epsilon = code.constants("epsilon", std::vector{float(Options.epsilon)});
    code.call(concat({"layer_normalization<", channels, ">"}), rows * In::size / channels, channels,
              {factors, terms, epsilon});
  }
};

/// The next kernel, and the bias behind it.
struct HeaderWeights {
  HeaderWeights(HeaderCode& code, bool use_bias) : kernel(code.take(true)) {
    if (use_bias) bias = code.take(true);
  }
  ExportedArray kernel;
  std::optional<ExportedArray> bias{};
};

template <std::size_t Units, class A, DenseOptions Options>
struct HeaderLayer<Dense<Units, A, Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    HeaderWeights weights(code, Options.use_bias);
    code.linear(concat({"dense<", In::size, ", ", Units, ">"}), rows, Units,
                std::move(weights.kernel), std::move(weights.bias));
    code.map(header_activation<A>());
  }
};

/// Window<...> of a layer over images of shape In, or over a sequence.
template <class In>
std::string header_window(Extent2D kernel, Extent2D stride, Extent2D dilation, Padding padding) {
  constexpr bool is_image = !is_sequence<In>;
  constexpr std::size_t height = is_image ? In::extents[0] : 1,
                        width = is_image ? In::extents[1] : positions_of<In>;
  const Extent2D covered = dilated(kernel, dilation);
  const auto before = [&](std::size_t size, std::size_t taps, std::size_t step) {
    return window_padding(size, taps, step, padding);
  };
  const auto outputs = [&](std::size_t size, std::size_t taps, std::size_t step) {
    return window_outputs(size, taps, step, padding);
  };
  return concat({"detail::Window<",
                 height,
                 ", ",
                 width,
                 ", ",
                 kernel.height,
                 ", ",
                 kernel.width,
                 ", ",
                 stride.height,
                 ", ",
                 stride.width,
                 ", ",
                 dilation.height,
                 ", ",
                 dilation.width,
                 ", ",
                 is_image ? before(height, covered.height, stride.height) : 0,
                 ", ",
                 before(width, covered.width, stride.width),
                 ", ",
                 is_image ? outputs(height, covered.height, stride.height) : 1,
                 ", ",
                 outputs(width, covered.width, stride.width),
                 ">"});
}
/// A sequence as an image of one row.
constexpr Extent2D along(std::size_t positions) { return {1, positions}; }

template <std::size_t Filters, Extent2D Kernel, class A, Conv2DOptions Options>
struct HeaderLayer<Conv2D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    static_assert(Options.groups == 1, "lockstep: export_header takes Conv2D without groups");
    using Out = typename Conv2D<Filters, Kernel, A, Options>::template Output<In>;
    HeaderWeights weights(code, Options.use_bias);
    code.linear(
        concat({"convolution<",
                header_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
                ", ", In::extents[2], ", ", Filters, ">"}),
        rows, Out::size, std::move(weights.kernel), std::move(weights.bias));
    code.map(header_activation<A>());
  }
};
template <std::size_t Filters, std::size_t Kernel, class A, Conv1DOptions Options>
struct HeaderLayer<Conv1D<Filters, Kernel, A, Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    static_assert(Options.groups == 1, "lockstep: export_header takes Conv1D without groups");
    using Out = typename Conv1D<Filters, Kernel, A, Options>::template Output<In>;
    HeaderWeights weights(code, Options.use_bias);
    code.linear(concat({"convolution<",
                        header_window<In>(along(Kernel), along(Options.stride),
                                          along(Options.dilation_rate), Options.padding),
                        ", ", TokenOf<In>::size, ", ", Filters, ">"}),
                1, Out::size, std::move(weights.kernel), std::move(weights.bias));
    code.map(header_activation<A>());
  }
};
template <Extent2D Kernel, class A, DepthwiseConv2DOptions Options>
struct HeaderLayer<DepthwiseConv2D<Kernel, A, Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    using Out = typename DepthwiseConv2D<Kernel, A, Options>::template Output<In>;
    const HeaderWeights weights(code, Options.use_bias);
    const std::string kernel = code.constants(weights.kernel), bias = code.constants(weights.bias);
    code.call(
        concat({"depthwise_convolution<",
                header_window<In>(Kernel, Options.stride, Options.dilation_rate, Options.padding),
                ", ", In::extents[2], ", ", weights.kernel.shape[3], ">"}),
        rows, Out::size, {kernel, bias});
    code.map(header_activation<A>());
  }
};

/// A pool L over images, or over a sequence.
template <class L, bool is_mean, Extent2D Pool, Extent2D Stride, Padding Pads>
struct HeaderPooling {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    write_over<In>(code, rows, Pool, Stride);
  }

 protected:
  template <class In>
  static void write_over(HeaderCode& code, std::size_t rows, Extent2D pool, Extent2D stride) {
    code.call(
        concat({is_mean ? "average" : "max", "_pooling<", header_window<In>(pool, stride, 1, Pads),
                ", ", In::extents[In::rank - 1], ">"}),
        rows, L::template Output<In>::size, {});
  }
};
/// One over all of it.
template <class L, bool is_mean>
struct HeaderGlobalPooling : HeaderPooling<L, is_mean, 1, 1, Padding::valid> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    constexpr Extent2D all =
        is_sequence<In> ? along(positions_of<In>) : Extent2D{In::extents[0], In::extents[1]};
    HeaderGlobalPooling::template write_over<In>(code, rows, all, all);
  }
};
template <Extent2D Pool, PoolingOptions Options>
struct HeaderLayer<MaxPooling2D<Pool, Options>>
    : HeaderPooling<MaxPooling2D<Pool, Options>, false, Pool, pooling_stride(Pool, Options.stride),
                    Options.padding> {};
template <Extent2D Pool, PoolingOptions Options>
struct HeaderLayer<AveragePooling2D<Pool, Options>>
    : HeaderPooling<AveragePooling2D<Pool, Options>, true, Pool,
                    pooling_stride(Pool, Options.stride), Options.padding> {};
template <std::size_t Pool, Pooling1DOptions Options>
struct HeaderLayer<MaxPooling1D<Pool, Options>>
    : HeaderPooling<MaxPooling1D<Pool, Options>, false, along(Pool),
                    along(Options.stride > 0 ? Options.stride : Pool), Options.padding> {};
template <std::size_t Pool, Pooling1DOptions Options>
struct HeaderLayer<AveragePooling1D<Pool, Options>>
    : HeaderPooling<AveragePooling1D<Pool, Options>, true, along(Pool),
                    along(Options.stride > 0 ? Options.stride : Pool), Options.padding> {};
template <>
struct HeaderLayer<GlobalMaxPooling2D> : HeaderGlobalPooling<GlobalMaxPooling2D, false> {};
template <>
struct HeaderLayer<GlobalAveragePooling2D> : HeaderGlobalPooling<GlobalAveragePooling2D, true> {};
template <>
struct HeaderLayer<GlobalMaxPooling1D> : HeaderGlobalPooling<GlobalMaxPooling1D, false> {};
template <>
struct HeaderLayer<GlobalAveragePooling1D> : HeaderGlobalPooling<GlobalAveragePooling1D, true> {};

template <std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options>
struct HeaderLayer<Embedding<Vocabulary, Width, Options>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    static_assert(!Options.mask_zero,
                  "lockstep: export_header takes no masks: Embedding without .mask_zero");
    const std::string table = code.constants(code.take(true));
    code.call(concat({"embedding<", In::size, ", ", Vocabulary, ", ", Width, ">"}), rows,
              In::size * Width, {table});
  }
};

/// "lstm", "gru" or "simple_rnn", with what is behind the numbers of all of them.
template <class In>
void write_recurrence(HeaderCode& code, std::string_view function, std::size_t units,
                      bool sequences, bool backwards, bool use_bias, std::string_view rest) {
  const std::string kernel = code.constants(code.take(true)),
                    recurrent = code.constants(code.take(true)),
                    bias = use_bias ? code.constants(code.take(true)) : std::string("nullptr");
  code.call(
      concat({function, "<", positions_of<In>, ", ", TokenOf<In>::size, ", ", units, ", ",
              sequences ? "true" : "false", ", ", backwards ? "true" : "false", ", ", rest, ">"}),
      1, (sequences ? positions_of<In> : 1) * units, {kernel, recurrent, bias});
}
template <std::size_t Units, LSTMOptions Options, class A, class R>
struct HeaderLayer<LSTM<Units, Options, A, R>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    write_recurrence<In>(
        code, "lstm", Units, Options.return_sequences, Options.go_backwards, Options.use_bias,
        concat({"detail::", header_activation<A>(), ", detail::", header_activation<R>()}));
  }
};
template <std::size_t Units, GRUOptions Options, class A, class R>
struct HeaderLayer<GRU<Units, Options, A, R>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    write_recurrence<In>(
        code, "gru", Units, Options.return_sequences, Options.go_backwards, Options.use_bias,
        concat({"detail::", header_activation<A>(), ", detail::", header_activation<R>(), ", ",
                Options.reset_after ? "true" : "false"}));
  }
};
template <std::size_t Units, SimpleRNNOptions Options, class A>
struct HeaderLayer<SimpleRNN<Units, Options, A>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    write_recurrence<In>(code, "simple_rnn", Units, Options.return_sequences, Options.go_backwards,
                         Options.use_bias, concat({"detail::", header_activation<A>()}));
  }
};

/// A layer, as a container has it: of a sequence it is given all, or each token by itself.
template <class In, class L>
void write_header_layer(HeaderCode& code) {
  if constexpr (is_sequence<In> && !SequenceLayer<L> && !requires { L::layer_count; } &&
                !std::is_base_of_v<NoHeaderCode, HeaderLayer<L>>)
    HeaderLayer<L>::template write<TokenOf<In>>(code, positions_of<In>);
  else
    HeaderLayer<L>::template write<In>(code, 1);
}
template <class In, class First, class... Rest>
void write_header_layers(HeaderCode& code) {
  write_header_layer<In, First>(code);
  if constexpr (sizeof...(Rest) > 0)
    write_header_layers<typename OutputShape<First, In>::Type, Rest...>(code);
}
template <class... Layers>
struct HeaderLayer<Sequential<Layers...>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    write_header_layers<In, Layers...>(code);
  }
};
template <class... Layers>
struct HeaderLayer<Recompute<Layers...>> : HeaderLayer<Sequential<Layers...>> {};
template <class L>
struct HeaderLayer<Float32<L>> : HeaderLayer<L> {};
template <std::size_t Times, class L>
struct HeaderLayer<Repeat<Times, L>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    for (std::size_t i = 0; i < Times; ++i) write_header_layer<In, L>(code);
  }
};
/// The layers beside each other. `write`: of a branch, given its number and the code.
template <class Merge, class... Outs, class Write>
void write_header_branches(HeaderCode& code, const Write& write) {
  using Token = TokenOf<typename Merge::template Rule<Outs...>::Type>;
  using Out = typename Merge::template Rule<Outs...>::Type;
  constexpr bool joins = std::is_same_v<Merge, Concatenate>;
  static_assert(joins || std::is_same_v<Merge, Add> || std::is_same_v<Merge, Average> ||
                    std::is_same_v<Merge, Multiply>,
                "lockstep: export_header knows no code for this merge");
  constexpr std::size_t blocks = Out::size / Token::extents[Token::rank - 1];
  HeaderCode::Branches branches = code.begin_branches(Out::size);
  std::size_t first = 0, number = 0;
  const auto write_branch = [&]<class Branch>(std::type_identity<Branch>) {
    code.begin_branch(branches);
    write(number++);
    code.end_branch(branches,
                    joins                             ? "put"
                    : std::is_same_v<Merge, Multiply> ? "multiply"
                                                      : "add",
                    blocks, first);
    first += Branch::size / blocks;
  };
  (write_branch(std::type_identity<Outs>{}), ...);
  code.end_branches(branches);
  if constexpr (std::is_same_v<Merge, Average>)
    code.scale_shift({1.0F / static_cast<float>(sizeof...(Outs))}, {0.0F});
}
template <class Merge, class... Branches>
struct HeaderLayer<Parallel<Merge, Branches...>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    constexpr std::array<void (*)(HeaderCode&), sizeof...(Branches)> writes{
        &write_header_layer<In, Branches>...};
    write_header_branches<Merge, typename OutputShape<Branches, In>::Type...>(
        code, [&](std::size_t branch) { writes[branch](code); });
  }
};
template <class... Layers>
struct HeaderLayer<Residual<Layers...>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    if constexpr (sizeof...(Layers) == 2 && (is_sequential<Layers> && ...))
      HeaderLayer<Parallel<Add, Layers...>>::template write<In>(code, rows);
    else
      HeaderLayer<Parallel<Add, Identity, Sequential<Layers...>>>::template write<In>(code, rows);
  }
};
template <class Merge, class L, class... Parts>
struct HeaderLayer<Shared<Merge, L, Parts...>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    using Input = typename OutputShape<std::tuple_element_t<0, std::tuple<Parts...>>, In>::Type;
    using Out = typename OutputShape<L, Input>::Type;
    constexpr std::array<void (*)(HeaderCode&), sizeof...(Parts)> writes{
        &write_header_layer<In, Parts>...};
    SharedCursors cursors = shared_cursors<L, Input>(code);
    write_uses<Out>(code, std::index_sequence_for<Parts...>{}, [&](std::size_t use) {
      cursors.begin_part(code);
      writes[use](code);
      cursors.begin_layer(code);
      write_header_layer<Input, L>(code);
    });
    cursors.end(code);
  }

 private:
  template <class Out, std::size_t... I, class Write>
  static void write_uses(HeaderCode& code, std::index_sequence<I...>, const Write& write) {
    write_header_branches<Merge, std::conditional_t<(I < sizeof...(I)), Out, void>...>(code, write);
  }
};
template <class... Named>
struct HeaderLayer<Inputs<Named...>> : NoHeaderCode {};
template <Name Of, class... Layers>
struct HeaderLayer<NamedOutput<Of, Layers...>> : HeaderLayer<Sequential<Layers...>> {};
template <class... Named>
struct HeaderLayer<Outputs<Named...>> : HeaderLayer<Parallel<Concatenate, Named...>> {};
template <std::size_t Begin, std::size_t Count>
struct HeaderLayer<Slice<Begin, Count>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t rows) {
    code.call(concat({"slice<", Begin, ", ", Count, ">"}), rows, Count, {});
  }
};
template <class L>
struct HeaderLayer<Frozen<L>> {
  template <class In>
  static void write(HeaderCode& code, std::size_t) {
    constexpr std::size_t trained = variables_of<L, In>().size(),
                          others = state_variables_of<L, In>().size();
    const auto before = code.freeze(trained);
    write_header_layer<In, L>(code);
    code.unfreeze(before, trained + others);
  }
};

}}}  // namespace lockstep::detail
