// TiedHead: layers between an embedding and its transpose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/other_weights.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/run_layers.hpp"
#include "lockstep/network/sequential.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

template <class In, class Tokens, class Hidden>
concept TiedWidths = is_sequence<Hidden> && std::is_same_v<Tokens, Hidden>;

/// What a TiedHead does with its table [vocabulary][width], seen as a kernel of vocabulary inputs
/// and width units, and with arrays of [width][stride] and [vocabulary][stride].
struct TableProducts {
  static constexpr std::size_t scratch(const kernels::DenseSize& size) {
    return kernels::dense_scratch(size.units, size.stride);
  }
  template <class T>
  static void forward(const kernels::DenseSize& size, const T* table, const T* hidden, T* logits,
                      T*) {
    if (kernels::other_weights<T>.holds(table))
      kernels::dense_forward<T>({size.units, size.inputs, size.stride}, hidden, table, nullptr,
                                logits);
    else
      kernels::dense_input_gradient<T>(size, table, hidden, logits);
  }
  /// d_table: set, not added to.
  template <class T>
  static void backward(const kernels::DenseSize& size, const T* table, const T* hidden,
                       const T* d_logits, T* d_table, T* d_hidden, T* scratch) {
    kernels::dense_bias_gradient<T>(size, {hidden, hidden}, nullptr, scratch);
    kernels::dense_weight_gradient<T>(size, d_logits, scratch, d_table);
    kernels::dense_forward<T>(size, d_logits, table, nullptr, d_hidden);
  }
  template <class T>
  static void clear(T* to, std::size_t n) {
    std::fill_n(to, n, T(0));
  }
};
/// (Those of an embedding on a device are its TableProducts.)
template <class EmbeddingLayer>
struct TableProductsOf {
  using Type = TableProducts;
};
template <class EmbeddingLayer>
  requires requires { typename EmbeddingLayer::TableProducts; }
struct TableProductsOf<EmbeddingLayer> {
  using Type = typename EmbeddingLayer::TableProducts;
};

}  // namespace detail

/// The logits of a language model: y = f(e(x)) E^T, where e is an Embedding with the table E
/// [vocabulary x width] and f are the layers, which keep the width; E is trained by both. Output: a
/// Sequence<T, vocabulary>. Press, Wolf, "Using the output embedding to improve language models",
/// EACL 2017; GPT-2 does so, and Keras Hub's ReversibleEmbedding.
/// @code
/// using Gpt = Sequential<Input<64>, TiedHead<Embedding<65, 128>, PositionEmbedding<64>,
///                                            Repeat<4, Block>, LayerNormalization<>>>;
/// @endcode
/// Use: `TiedHead<Embedding<50, 8>, Dense<8, ReLU>>`: Shape<20> -> Sequence<20, 50>; embeddings
/// (50, 8), kernel (8, 8), bias (8). Keras: none (KerasHub's `ReversibleEmbedding`).
template <class EmbeddingLayer, class... Layers>
struct TiedHead : detail::LayersInARow<detail::ChainTables<EmbeddingLayer, Layers...>> {
  using Base = detail::LayersInARow<detail::ChainTables<EmbeddingLayer, Layers...>>;
  using Body = Sequential<Layers...>;
  using Products = typename detail::TableProductsOf<EmbeddingLayer>::Type;

  static constexpr std::string_view name = "tied_head";
  using AnnouncesGradients = TiedHead;
  using OutputActivation = Linear;

  template <class In>
  using Tokens = typename EmbeddingLayer::template Output<In>;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(EmbeddingLayer::template check<Position, In>());
    static_assert(detail::TiedWidths<In, Tokens<In>, typename Body::template Output<Tokens<In>>>,
                  "lockstep: the layers of TiedHead must keep the width of its embedding, as its "
                  "table makes the logits");
    return true;
  }

  template <class In>
  static constexpr std::size_t vocabulary = EmbeddingLayer::template variables<In>[0].extents[0];
  template <class In>
  static constexpr std::size_t width = Tokens<In>::Token::size;

 private:
  /// Where the parts of the scratch begin: activations [width][stride], and what layers keep.
  struct Places {
    std::size_t tokens, hidden, embedding, body, end;
  };
  /// Where those of the temporary memory begin: gradients of the activations, and what the head and
  /// the body need, one after the other.
  struct TemporaryPlaces {
    std::size_t d_tokens, d_hidden, head, body, end;
  };
  template <class In>
  static constexpr Places places(std::size_t samples) {
    const detail::TensorSize size = detail::tensor_size<Tokens<In>>;
    const std::size_t elements = size.elements(samples);
    Places p{.tokens = 0, .hidden = elements, .embedding = 2 * elements, .body = 0, .end = 0};
    p.body = p.embedding + detail::scratch_of<EmbeddingLayer, In>(samples);
    p.end = p.body + Body::template scratch<Tokens<In>>(samples);
    return p;
  }
  template <class In>
  static constexpr TemporaryPlaces temporary_places(std::size_t samples) {
    const detail::TensorSize size = detail::tensor_size<Tokens<In>>;
    const std::size_t elements = size.elements(samples);
    TemporaryPlaces p{
        .d_tokens = 0, .d_hidden = elements, .head = 2 * elements, .body = 2 * elements, .end = 0};
    p.end = 2 * elements + std::max(Products::scratch(head_size<In>(size.stride(samples))),
                                    Body::template temporary<Tokens<In>>(samples));
    return p;
  }

 public:
  template <class In>
  static constexpr Flop flop = [] {
    Flop head = product_flop(Tokens<In>::size * vocabulary<In>);
    head.backward_weights = head.backward;
    return head += Base::template flop<In>;
  }();

  template <class In>
  using Output = SequenceOf<Tokens<In>::positions, Shape<vocabulary<In>>>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return places<In>(samples).end;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return temporary_places<In>(samples).end;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t samples = pass.x.samples();
    const Places p = places<In>(samples);
    const TensorView<T> tokens = activation<In>(pass.scratch, p.tokens, samples);
    const TensorView<T> hidden = activation<In>(pass.scratch, p.hidden, samples);
    const T* token_mask = nullptr;
    {
      const TraceSpan span(pass.context.trace, TracePart::forward, pass.context.layer);
      EmbeddingLayer::template forward<In, T>({.context = pass.context,
                                               .weights = pass.weights.first(1),
                                               .state = {},
                                               .x = pass.x,
                                               .y = tokens,
                                               .scratch = pass.scratch.subspan(p.embedding),
                                               .mask = pass.mask,
                                               .mask_of_y = &token_mask});
    }
    const StepContext context = body_context(pass.context);
    const T* mask = nullptr;
    Body::template forward<Tokens<In>, T>(
        {.context = context,
         .weights = pass.weights.subspan(1),
         .state = pass.state,
         .x = tokens,
         .y = hidden,
         .scratch = pass.scratch.subspan(p.body),
         .mask = token_mask,
         .mask_of_y = &mask,
         .temporary = pass.temporary.subspan(temporary_places<In>(samples).body)});
    const TraceSpan span(pass.context.trace, TracePart::forward, pass.context.layer);
    Products::template forward<T>(head_size<In>(pass.y.stride()), pass.weights[0].data(),
                                  hidden.data(), pass.y.data(),
                                  pass.temporary.data() + temporary_places<In>(samples).head);
    pass.set_mask(mask);
  }

  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    const std::size_t samples = pass.x.samples();
    const Places p = places<In>(samples);
    const TensorView<T> tokens = activation<In>(pass.scratch, p.tokens, samples);
    f(first, TensorView<const T>(tokens));
    Body::template each_output<Tokens<In>, T>(
        first + 1,
        {.context = pass.context,
         .weights = {},
         .state = {},
         .x = tokens,
         .y = activation<In>(pass.scratch, p.hidden, samples),
         .scratch = pass.scratch.subspan(p.body),
         .temporary = pass.temporary.subspan(temporary_places<In>(samples).body)},
        f);
    f(first, TensorView<const T>(pass.y));  // the table once more
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    const std::size_t samples = pass.x.samples();
    const Places p = places<In>(samples);
    const TensorView<T> tokens = activation<In>(pass.scratch, p.tokens, samples);
    const TensorView<T> hidden = activation<In>(pass.scratch, p.hidden, samples);
    const TemporaryPlaces t = temporary_places<In>(samples);
    const TensorView<T> d_tokens = activation<In>(pass.temporary, t.d_tokens, samples);
    const TensorView<T> d_hidden = activation<In>(pass.temporary, t.d_hidden, samples);
    {
      // The head's gradient of the table is written, the embedding's is added to it.
      const TraceSpan span(pass.context.trace, TracePart::backward, pass.context.layer);
      Products::template backward<T>(head_size<In>(pass.dy.stride()), pass.weights[0].data(),
                                     hidden.data(), pass.dy.data(), pass.gradients[0].data(),
                                     d_hidden.data(), pass.temporary.data() + t.head);
    }
    const StepContext context = body_context(pass.context);
    Body::template backward<Tokens<In>, T>({.context = context,
                                            .weights = pass.weights.subspan(1),
                                            .state = pass.state,
                                            .x = tokens,
                                            .y = hidden,
                                            .dy = d_hidden,
                                            .dx = d_tokens,
                                            .gradients = pass.gradients.subspan(1),
                                            .scratch = pass.scratch.subspan(p.body),
                                            .temporary = pass.temporary.subspan(t.body)});
    const TraceSpan span(pass.context.trace, TracePart::backward, pass.context.layer);
    EmbeddingLayer::template add_gradient<In, T>({.context = pass.context,
                                                  .weights = pass.weights.first(1),
                                                  .state = {},
                                                  .x = pass.x,
                                                  .y = tokens,
                                                  .dy = d_tokens,
                                                  .dx = {},
                                                  .gradients = pass.gradients.first(1),
                                                  .scratch = pass.scratch.subspan(p.embedding)});
  }

  /// (Ids have no gradient.)
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    Products::clear(pass.dx.data(), pass.dx.features() * pass.dx.stride());
  }

 private:
  template <class In, class T>
  static TensorView<T> activation(std::span<T> scratch, std::size_t place, std::size_t samples) {
    return detail::tensor_size<Tokens<In>>.view(scratch.data() + place, samples);
  }

  /// The table as a kernel of [vocabulary inputs][width units].
  template <class In>
  static constexpr kernels::DenseSize head_size(std::size_t stride) {
    return {vocabulary<In>, width<In>, stride};
  }

  static StepContext body_context(const StepContext& context) {
    StepContext own = context;
    own.layer += detail::layer_count_of<EmbeddingLayer>();
    return own;
  }
};

}}  // namespace lockstep
