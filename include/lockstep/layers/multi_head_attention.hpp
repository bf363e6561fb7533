// MultiHeadAttention: each position looks at all others of its sequence.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/attention_parts.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Self attention, Keras's MultiHeadAttention(Heads, KeyDim) called with one tensor, a Sequence<T,
/// width>. For each head
///
///   q = (x Wq + bq) / sqrt(KeyDim)    k = x Wk + bk    v = x Wv + bv
///   p = dropout(softmax(q k^T))       y = sum over heads of (p v) Wo + bo
///
/// Masked positions are seen by none and see none; the mask travels on. Variables, as in Keras:
/// query/kernel [width x Heads x KeyDim], query/bias [Heads x KeyDim], the same for key, and for
/// value with its own dimension, attention_output/kernel [Heads x value_dim x output] and bias
/// [output]. Vaswani et al., "Attention is all you need", arXiv 1706.03762, 2017.
///
/// Sequences of more than 256 positions keep two numbers for each query and head for backward
/// instead of all of its probabilities. What dropout drops depends on the seed, the step, the
/// layer, the sample's index in the dataset, head and positions alone.
template <std::size_t Heads, std::size_t KeyDim,
          MultiHeadAttentionOptions Options = MultiHeadAttentionOptions{}>
struct MultiHeadAttention {
  static_assert(Heads > 0 && KeyDim > 0,
                "lockstep: MultiHeadAttention needs at least one head of at least one feature");
  static_assert(Options.dropout >= 0 && Options.dropout <= 1,
                "lockstep: the dropout of MultiHeadAttention is the part of probabilities that is "
                "dropped: from 0 to 1");

  static constexpr std::string_view name = "multi_head_attention";
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatTokens<Position, In>,
                  "lockstep: MultiHeadAttention needs a sequence of flat tokens, Sequence<T, "
                  "width>: put ls::Embedding or "
                  "ls::ToSequence before it");
    return true;
  }

  template <class In>
  using Output =
      Sequence<In::positions, Options.output_shape == 0 ? In::Token::size : Options.output_shape>;

 private:
  template <class In>
  static constexpr detail::AttentionLayout layout() {
    return detail::attention_layout<In, In>(Heads, KeyDim, Options);
  }

 public:
  template <class In>
  static constexpr auto variables = detail::attention_variables<Options>(layout<In>());

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return layout<In>().places(samples).end;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return layout<In>().temporary_places(samples).end;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    work<In, T>(pass).forward(pass.x.data(), pass.x.data(), pass.mask, pass.mask, pass.y.data());
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    work<In, T>(pass).backward(pass.x.data(), pass.x.data(), pass.dy.data(), pass.gradients,
                               nullptr, nullptr);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    work<In, T>(pass).backward(pass.x.data(), pass.x.data(), pass.dy.data(), pass.gradients,
                               pass.dx.data(), pass.dx.data());
  }

 private:
  template <class In, class T, class Pass>
  static detail::AttentionWork<T> work(const Pass& pass) {
    return {layout<In>(), pass.context, pass.x.samples() / In::positions,
            pass.weights, pass.scratch, pass.temporary};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
