// The positions of one branch look at those of another: CrossAttention, Attention,
// AdditiveAttention.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/branches.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// In place of the ValueBranch of Attention or AdditiveAttention: values and keys are of two
/// branches, as in Keras's call with three tensors. Both have as many positions; keys are as wide
/// as queries, and the output as the values. Which positions count, the values' mask says.
/// Use: `Attention<Dense<8>, ValueAndKey<Dense<5>, Dense<8>>>`: Sequence<10, 6> -> Sequence<10, 5>;
/// kernel (6, 8), bias (8), kernel (6, 5), bias (5), kernel (6, 8), bias (8). Keras:
/// `Attention()([query, value, key])`.
template <class ValueBranch, class KeyBranch>
struct ValueAndKey {};

namespace detail {

template <class First, class... Rest>
struct LastOf : LastOf<Rest...> {};
template <class Only>
struct LastOf<Only> {
  using Type = Only;
};

/// Two sequences of flat tokens.
template <std::size_t Position, class Queries, class Values>
concept AttentionBranches =
    is_sequence<Queries> && is_sequence<Values> && Queries::rank == 2 && Values::rank == 2;

/// A container whose branches Look, a kind of attention with a layout of two sequences, its
/// variables and the layer's name, makes one output of. Keys are those of KeyBranch, if there is
/// one, and else the values.
template <class Look, class QueryBranch, class ValueBranch, class... KeyBranch>
struct LookingBranches : ParallelLayers<false, NoMerge, QueryBranch, ValueBranch, KeyBranch...> {
  using Base = ParallelLayers<false, NoMerge, QueryBranch, ValueBranch, KeyBranch...>;
  static constexpr std::size_t layer_count = Base::layer_count + 1;

  template <class In>
  using Queries = typename OutputShape<QueryBranch, In>::Type;
  template <class In>
  using Values = typename OutputShape<ValueBranch, In>::Type;
  template <class In>
  using Keys = typename OutputShape<typename LastOf<ValueBranch, KeyBranch...>::Type, In>::Type;
  template <class In>
  using Output = Sequence<Queries<In>::positions,
                          Look::template layout<Queries<In>, Values<In>>().output_width>;

 private:
  static constexpr std::size_t branch_count = 2 + sizeof...(KeyBranch);
  static constexpr bool has_keys = branch_count == 3;

  template <class In>
  static constexpr AttentionLayout layout() {
    return Look::template layout<Queries<In>, Values<In>>();
  }
  template <class In>
  static constexpr auto own_variables = Look::template variables<layout<In>()>();
  template <class In>
  static constexpr auto output_extents = Output<In>::extents;

 public:
  template <class In>
  static constexpr auto layers = [] {
    constexpr auto branches = Base::template layers<In>;
    std::array<LayerInfo, branches.size() + 1> all{};
    std::copy(branches.begin(), branches.end(), all.begin());
    all.back() = {
        .name = Look::name, .output_extents = output_extents<In>, .variables = own_variables<In>};
    return all;
  }();
  template <class In>
  static constexpr auto variables =
      concatenate<&LayerInfo::variables, variable_count<&LayerInfo::variables>(layers<In>)>(
          layers<In>);

  template <class In>
  static constexpr Flop flop = [] {
    Flop own = layout<In>().flop();
    own.backward_weights = own.backward;
    return own += Base::template flop<In>;
  }();

  /// The scratch of the branches and of the attention.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Base::template scratch<In>(samples) + layout<In>().places(samples).end;
  }
  /// The gradients of the branches' outputs, and what the attention and the branches need, one
  /// after the other.
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return own_temporary<In>(samples) + std::max(Base::template temporary<In>(samples),
                                                 layout<In>().temporary_places(samples).end);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const BranchArrays<T> arrays(Base::template branches<In>, pass.x, pass.y, pass.scratch,
                                 pass.temporary, false);
    const std::size_t samples = samples_of<In>(pass.x);
    const T* masks[branch_count];
    for (std::size_t b = 0; b < branch_count; ++b)
      masks[b] = run_branch<T>(Base::template branches<In>[b], Base::template calls<In, T>[b], pass,
                               arrays.output(b), arrays.scratch[b],
                               pass.temporary.subspan(own_temporary<In>(samples)));
    const StepContext context = own_context(pass.context);
    const TraceSpan span(context.trace, TracePart::forward, context.layer);
    attention<In, T>(pass, context, samples)
        .forward(arrays.outputs[0].data(), arrays.outputs[1].data(), masks[0], masks[1],
                 pass.y.data(), has_keys ? arrays.outputs[branch_count - 1].data() : nullptr);
    pass.set_mask(masks[0]);
  }

  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    Base::template each_output<In, T>(first, pass, f);
    f(first + Base::layer_count, TensorView<const T>(pass.y));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const BranchArrays<T> arrays(Base::template branches<In>, pass.x, pass.y, pass.scratch,
                                 pass.temporary, false);
    const std::size_t samples = samples_of<In>(pass.x);
    T* const of_values = pass.temporary.data() + tensor_size<Queries<In>>.elements(samples);
    T* const of_keys = of_values + tensor_size<Values<In>>.elements(samples);
    const TensorView<T> gradients[3] = {
        tensor_size<Queries<In>>.view(pass.temporary.data(), samples),
        tensor_size<Values<In>>.view(of_values, samples),
        has_keys ? tensor_size<Keys<In>>.view(of_keys, samples) : TensorView<T>()};
    const std::size_t first = own_first<In>();
    {
      const StepContext context = own_context(pass.context);
      const TraceSpan span(context.trace, TracePart::backward, context.layer);
      attention<In, T>(pass, context, samples)
          .backward(arrays.outputs[0].data(), arrays.outputs[1].data(), pass.dy.data(),
                    pass.gradients.subspan(first), gradients[0].data(), gradients[1].data(),
                    has_keys ? of_keys : nullptr);
    }
    pass.context.gradients_ready(pass.gradients.subspan(first));
    pass.context.variables_done(pass.gradients.subspan(first));
    BackwardPass<T> branches_pass = pass;
    branches_pass.temporary = pass.temporary.subspan(own_temporary<In>(samples));
    run_branches_backward_with<T>(Base::template branches<In>, Base::template calls<In, T>,
                                  branches_pass, arrays,
                                  [&](std::size_t b, TensorView<T>, bool) { return gradients[b]; });
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    backward<In, T>(pass);
  }

 private:
  template <class In>
  static constexpr std::size_t own_first() {
    return variables<In>.size() - own_variables<In>.size();
  }
  /// Elements of the gradients of the branches' outputs.
  template <class In>
  static constexpr std::size_t own_temporary(std::size_t samples) {
    return tensor_size<Queries<In>>.elements(samples) + tensor_size<Values<In>>.elements(samples) +
           (has_keys ? tensor_size<Keys<In>>.elements(samples) : 0);
  }
  template <class In, class T>
  static std::size_t samples_of(const TensorView<T>& x) {
    return detail::samples_of(x, tensor_size<In>);
  }

  static StepContext own_context(const StepContext& context) {
    StepContext own = context;
    own.layer += Base::layer_count;
    return own;
  }
  template <class In, class T, class Pass>
  static AttentionWork<T> attention(const Pass& pass, const StepContext& context,
                                    std::size_t samples) {
    return {layout<In>(),
            context,
            samples,
            pass.weights.subspan(own_first<In>()),
            pass.scratch.subspan(Base::template scratch<In>(samples)),
            pass.temporary.subspan(own_temporary<In>(samples))};
  }
};

/// With projections.
template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options>
struct HeadsLook {
  static constexpr std::string_view name = "multi_head_attention";
  template <class Queries, class Values>
  static constexpr AttentionLayout layout() {
    return attention_layout<Queries, Values>(Heads, KeyDim, Options);
  }
  template <AttentionLayout Layout>
  static constexpr auto variables() {
    return attention_variables<Options>(Layout);
  }
};

struct PlainLookOptions {
  AttentionScore score;
  bool use_scale;
  double dropout;
  bool causal;
};

/// Without.
template <PlainLookOptions Options>
struct PlainLook {
  static constexpr std::string_view name =
      Options.score == AttentionScore::additive ? "additive_attention" : "attention";
  template <class Queries, class Values>
  static constexpr AttentionLayout layout() {
    AttentionLayout one = attention_layout<Queries, Values>(1, Queries::Token::size,
                                                            {.value_dim = Values::Token::size,
                                                             .dropout = Options.dropout,
                                                             .use_causal_mask = Options.causal,
                                                             .output_shape = Values::Token::size});
    one.score = Options.score;
    one.use_scale = Options.use_scale;
    return one;
  }
  template <AttentionLayout Layout>
  static constexpr auto variables() {
    return score_variables<Options.score, Options.use_scale>(Layout.key_dim);
  }
};

template <std::size_t Position, class Queries, class Keys>
concept BranchesOfOneWidth =
    AttentionBranches<Position, Queries, Keys> && Queries::Token::size == Keys::Token::size;
template <std::size_t Position, class Values, class Keys>
concept BranchesOfOneLength =
    AttentionBranches<Position, Values, Keys> && Values::positions == Keys::positions;

/// The branches of PlainAttention.
template <PlainLookOptions Options, class QueryBranch, class ValueBranch>
struct PlainBranches : LookingBranches<PlainLook<Options>, QueryBranch, ValueBranch> {};
template <PlainLookOptions Options, class QueryBranch, class ValueBranch, class KeyBranch>
struct PlainBranches<Options, QueryBranch, ValueAndKey<ValueBranch, KeyBranch>>
    : LookingBranches<PlainLook<Options>, QueryBranch, ValueBranch, KeyBranch> {};

/// Attention and AdditiveAttention.
template <PlainLookOptions Options, class QueryBranch, class ValueBranch>
struct PlainAttention : PlainBranches<Options, QueryBranch, ValueBranch> {
  using Branches = PlainBranches<Options, QueryBranch, ValueBranch>;
  static_assert(Options.dropout >= 0 && Options.dropout <= 1,
                "lockstep: the dropout of Attention and AdditiveAttention is the part of "
                "probabilities that is dropped: from 0 to 1");

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        BranchesOfOneWidth<Position, typename Branches::template Queries<In>,
                           typename Branches::template Keys<In>>,
        "lockstep: both branches of Attention and AdditiveAttention must give a sequence of flat "
        "tokens of one width, Sequence<T, width>: end one of them with Dense<width>");
    static_assert(
        BranchesOfOneLength<Position, typename Branches::template Values<In>,
                            typename Branches::template Keys<In>>,
        "lockstep: both branches of ValueAndKey must give a sequence of flat tokens, Sequence<T, "
        "width>, and as many of them: a key stands for each value");
    return true;
  }
};

}  // namespace detail

/// Keras's MultiHeadAttention(Heads, KeyDim) called with two tensors: queries are made of the
/// output of QueryBranch, keys and values of that of ValueBranch, both of the container's input. A
/// branch is a layer or a Sequential whose output is a sequence; Identity hands the input on.
/// Variables: those of the branches, then those of MultiHeadAttention. Masked positions of the
/// values are seen by none; masked queries see none, and their mask travels on. A Transformer's
/// decoder adds the queries to the output: examples/seq2seq.cpp.
/// @code
/// // A decoder's look at what an encoder has made of the first half of the sample.
/// using Look = CrossAttention<4, 32, Sequential<Slice<64, 64>, Embedding<1000, 128>>,
///                             Sequential<Slice<0, 64>, Embedding<1000, 128>>>;
/// @endcode
/// Use: `CrossAttention<4, 8, Sequential<Slice<0, 10>, Embedding<50, 16>>, Sequential<Slice<10,
/// 10>, Embedding<50, 16>>>`: Shape<20> -> Sequence<10, 16>; embeddings (50, 16), embeddings (50,
/// 16), query/kernel (16, 4, 8), query/bias (4, 8), key/kernel (16, 4, 8), key/bias (4, 8),
/// value/kernel (16, 4, 8), value/bias (4, 8), attention_output/kernel (4, 8, 16),
/// attention_output/bias (16). Keras: `MultiHeadAttention` with two tensors.
template <std::size_t Heads, std::size_t KeyDim, class QueryBranch, class ValueBranch,
          MultiHeadAttentionOptions Options = MultiHeadAttentionOptions{}>
struct CrossAttention
    : detail::LookingBranches<detail::HeadsLook<Heads, KeyDim, Options>, QueryBranch, ValueBranch> {
  static_assert(Options.rope_theta == 0 && Options.sliding_window == 0,
                "lockstep: rope_theta and sliding_window are of one sequence's positions, and "
                "CrossAttention looks from one at another: give them to MultiHeadAttention");
  static_assert(Options.num_key_value_heads == 0 || Heads % Options.num_key_value_heads == 0,
                "lockstep: the heads of keys and values (num_key_value_heads) must divide those of "
                "queries: each serves as many of them");

  static constexpr std::string_view name = "cross_attention";
  using AnnouncesGradients = CrossAttention;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        detail::AttentionBranches<Position, typename detail::OutputShape<QueryBranch, In>::Type,
                                  typename detail::OutputShape<ValueBranch, In>::Type>,
        "lockstep: both branches of CrossAttention must give a sequence of flat tokens, "
        "Sequence<T, width>");
    return true;
  }
};

/// How Attention compares a query q with a key k: `dot`, by the sum of q k; `concat`, by that of
/// tanh(q + k).
enum class ScoreMode { dot, concat };

/// Compile-time options of Attention; the defaults are Keras's.
struct AttentionOptions {
  bool use_scale = false;  ///< a factor that is trained: of the sum, or of q + k in `concat`
  ScoreMode score_mode = ScoreMode::dot;
  double dropout = 0;            ///< of the probabilities: from 0 to 1
  bool use_causal_mask = false;  ///< position t sees 0 to t. (In Keras an argument of the call.)
};

namespace detail {
constexpr PlainLookOptions look_options(const AttentionOptions& options) {
  return {options.score_mode == ScoreMode::dot ? AttentionScore::dot : AttentionScore::concat,
          options.use_scale, options.dropout, options.use_causal_mask};
}
}  // namespace detail

/// Keras's Attention called with two tensors, query and value, after Luong: each query's mean of
/// the values, weighted by the softmax of how well they fit. Keys are the values, or of a third
/// branch: see ValueAndKey. Nothing is projected, and `dot` is not divided by sqrt(width). Branches
/// and masks are those of CrossAttention; a query that sees no value gets 0. (In Keras, a mean of
/// all.) Variables: those of the branches, then the number scale with use_scale, and
/// concat_score_weight, the factor of the sum, in `concat`; both begin with 1. M. Luong and others,
/// arXiv 1508.04025, 2015.
/// Use: `Attention<Sequential<Slice<0, 10>, Embedding<50, 16>>, Sequential<Slice<10, 10>,
/// Embedding<50, 16>>>`: Shape<20> -> Sequence<10, 16>; embeddings (50, 16), embeddings (50, 16).
template <class QueryBranch, class ValueBranch, AttentionOptions Options = AttentionOptions{}>
struct Attention
    : detail::PlainAttention<detail::PlainLookOptions{Options.score_mode == ScoreMode::dot
                                                          ? detail::AttentionScore::dot
                                                          : detail::AttentionScore::concat,
                                                      Options.use_scale, Options.dropout,
                                                      Options.use_causal_mask},
                             QueryBranch, ValueBranch> {
  static constexpr std::string_view name = "attention";
  using AnnouncesGradients = Attention;
};

/// Compile-time options of AdditiveAttention; the defaults are Keras's.
struct AdditiveAttentionOptions {
  bool use_scale = true;         ///< a factor of each feature that is trained; false: 1
  double dropout = 0;            ///< of the probabilities: from 0 to 1
  bool use_causal_mask = false;  ///< position t sees 0 to t. (In Keras an argument of the call.)
};

namespace detail {
constexpr PlainLookOptions look_options(const AdditiveAttentionOptions& options) {
  return {AttentionScore::additive, options.use_scale, options.dropout, options.use_causal_mask};
}
}  // namespace detail

/// Keras's AdditiveAttention called with two tensors, after Bahdanau: as Attention, with the sum
/// over the features of scale tanh(q + k). Variables: those of the branches, then scale (width)
/// with use_scale. D. Bahdanau and others, arXiv 1409.0473, 2014.
/// Use: `AdditiveAttention<Sequential<Slice<0, 10>, Embedding<50, 16>>, Sequential<Slice<10, 10>,
/// Embedding<50, 16>>>`: Shape<20> -> Sequence<10, 16>; embeddings (50, 16), embeddings (50, 16),
/// scale (16).
template <class QueryBranch, class ValueBranch,
          AdditiveAttentionOptions Options = AdditiveAttentionOptions{}>
struct AdditiveAttention
    : detail::PlainAttention<detail::PlainLookOptions{detail::AttentionScore::additive,
                                                      Options.use_scale, Options.dropout,
                                                      Options.use_causal_mask},
                             QueryBranch, ValueBranch> {
  static constexpr std::string_view name = "additive_attention";
  using AnnouncesGradients = AdditiveAttention;
};

}}  // namespace lockstep
