// CrossAttention: the positions of one branch look at those of another.
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
#include "lockstep/core/variable.hpp"
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

namespace detail {

/// Two sequences of flat tokens.
template <std::size_t Position, class Queries, class Values>
concept AttentionBranches =
    is_sequence<Queries> && is_sequence<Values> && Queries::rank == 2 && Values::rank == 2;

}  // namespace detail

/// Keras's MultiHeadAttention(Heads, KeyDim) called with two tensors: queries are made of the
/// output of QueryBranch, keys and values of that of ValueBranch, both of the container's input. A
/// branch is a layer or a Sequential whose output is a sequence; Identity hands the input on.
/// Variables: those of the branches, then those of MultiHeadAttention. Masked positions of the
/// values are seen by none; masked queries see none, and their mask travels on.
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
struct CrossAttention : detail::ParallelLayers<false, detail::NoMerge, QueryBranch, ValueBranch> {
  using Base = detail::ParallelLayers<false, detail::NoMerge, QueryBranch, ValueBranch>;
  static_assert(Options.rope_theta == 0 && Options.sliding_window == 0,
                "lockstep: rope_theta and sliding_window are of one sequence's positions, and "
                "CrossAttention looks from one at another: give them to MultiHeadAttention");
  static_assert(Options.num_key_value_heads == 0 || Heads % Options.num_key_value_heads == 0,
                "lockstep: the heads of keys and values (num_key_value_heads) must divide those of "
                "queries: each serves as many of them");

  static constexpr std::string_view name = "cross_attention";
  static constexpr std::size_t layer_count = Base::layer_count + 1;
  using AnnouncesGradients = CrossAttention;

  template <class In>
  using Queries = typename detail::OutputShape<QueryBranch, In>::Type;
  template <class In>
  using Values = typename detail::OutputShape<ValueBranch, In>::Type;
  template <class In>
  using Output =
      Sequence<Queries<In>::positions,
               Options.output_shape == 0 ? Queries<In>::Token::size : Options.output_shape>;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(detail::AttentionBranches<Position, Queries<In>, Values<In>>,
                  "lockstep: both branches of CrossAttention must give a sequence of flat tokens, "
                  "Sequence<T, width>");
    return true;
  }

 private:
  template <class In>
  static constexpr detail::AttentionLayout layout() {
    return detail::attention_layout<Queries<In>, Values<In>>(Heads, KeyDim, Options);
  }
  template <class In>
  static constexpr auto own_variables = detail::attention_variables<Options>(layout<In>());
  template <class In>
  static constexpr auto output_extents = Output<In>::extents;

 public:
  template <class In>
  static constexpr auto layers = [] {
    constexpr auto branches = Base::template layers<In>;
    std::array<LayerInfo, branches.size() + 1> all{};
    std::copy(branches.begin(), branches.end(), all.begin());
    all.back() = {.name = "multi_head_attention",
                  .output_extents = output_extents<In>,
                  .variables = own_variables<In>};
    return all;
  }();
  template <class In>
  static constexpr auto variables =
      detail::concatenate<&LayerInfo::variables,
                          detail::variable_count<&LayerInfo::variables>(layers<In>)>(layers<In>);

  template <class In>
  static constexpr Flop flop = [] {
    Flop own = layout<In>().flop();
    own.backward_weights = own.backward;
    return own += Base::template flop<In>;
  }();

  /// That of the branches, and the attention's.
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
    const detail::BranchArrays<T> arrays(Base::template branches<In>, pass.x, pass.y, pass.scratch,
                                         pass.temporary, false);
    const std::size_t samples = samples_of<In>(pass.x);
    const T* masks[2];
    for (std::size_t b = 0; b < 2; ++b)
      masks[b] = detail::run_branch<T>(
          Base::template branches<In>[b], Base::template calls<In, T>[b], pass, arrays.output(b),
          arrays.scratch[b], pass.temporary.subspan(own_temporary<In>(samples)));
    const StepContext context = own_context(pass.context);
    const TraceSpan span(context.trace, TracePart::forward, context.layer);
    attention<In, T>(pass, context, samples)
        .forward(arrays.outputs[0].data(), arrays.outputs[1].data(), masks[0], masks[1],
                 pass.y.data());
    pass.set_mask(masks[0]);
  }

  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    Base::template each_output<In, T>(first, pass, f);
    f(first + Base::layer_count, TensorView<const T>(pass.y));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const detail::BranchArrays<T> arrays(Base::template branches<In>, pass.x, pass.y, pass.scratch,
                                         pass.temporary, false);
    const std::size_t samples = samples_of<In>(pass.x);
    const TensorView<T> gradients[2] = {
        detail::tensor_size<Queries<In>>.view(pass.temporary.data(), samples),
        detail::tensor_size<Values<In>>.view(
            pass.temporary.data() + detail::tensor_size<Queries<In>>.elements(samples), samples)};
    const std::size_t first = own_first<In>();
    {
      const StepContext context = own_context(pass.context);
      const TraceSpan span(context.trace, TracePart::backward, context.layer);
      attention<In, T>(pass, context, samples)
          .backward(arrays.outputs[0].data(), arrays.outputs[1].data(), pass.dy.data(),
                    pass.gradients.subspan(first), gradients[0].data(), gradients[1].data());
    }
    pass.context.gradients_ready(pass.gradients.subspan(first));
    pass.context.variables_done(pass.gradients.subspan(first));
    BackwardPass<T> branches_pass = pass;
    branches_pass.temporary = pass.temporary.subspan(own_temporary<In>(samples));
    detail::run_branches_backward_with<T>(
        Base::template branches<In>, Base::template calls<In, T>, branches_pass, arrays,
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
    return detail::tensor_size<Queries<In>>.elements(samples) +
           detail::tensor_size<Values<In>>.elements(samples);
  }
  template <class In, class T>
  static std::size_t samples_of(const TensorView<T>& x) {
    return detail::samples_of(x, detail::tensor_size<In>);
  }

  static StepContext own_context(const StepContext& context) {
    StepContext own = context;
    own.layer += Base::layer_count;
    return own;
  }
  template <class In, class T, class Pass>
  static detail::AttentionWork<T> attention(const Pass& pass, const StepContext& context,
                                            std::size_t samples) {
    return {layout<In>(),
            context,
            samples,
            pass.weights.subspan(own_first<In>()),
            pass.scratch.subspan(Base::template scratch<In>(samples)),
            pass.temporary.subspan(own_temporary<In>(samples))};
  }
};

}}  // namespace lockstep
