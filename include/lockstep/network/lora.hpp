// LoRA: a layer that is trained by two narrow factors beside its frozen kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/low_rank.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/layer_at.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

template <class L>
inline constexpr bool takes_lora = false;
template <std::size_t Units, class Activation, DenseOptions Options>
inline constexpr bool takes_lora<Dense<Units, Activation, Options>> = true;
template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options>
inline constexpr bool takes_lora<MultiHeadAttention<Heads, KeyDim, Options>> = true;

/// A factor [inputs x rank] that is drawn, and one [rank x ...] that is zero at first.
template <class... Extents>
constexpr std::array<Variable, 2> lora_factors(std::string_view a, std::string_view b,
                                               std::size_t inputs, std::size_t rank,
                                               Extents... units) {
  return {Variable{a, {inputs, rank}, he_uniform, Fans{inputs, rank}},
          Variable{b, {rank, units...}, zeros, Fans{rank, (units * ... * 1)}}};
}

/// The work of a frozen layer and of its factors, pairs of A and B, for this many rows. (A's
/// gradient needs that of x A, whether the input's is wanted or not.)
template <std::size_t Count>
constexpr Flop lora_flop(Flop all, const std::array<Variable, Count>& factors, std::size_t rows) {
  for (std::size_t i = 0; i < Count; ++i) {
    all += product_flop(rows * factors[i].size());
    if (i % 2 == 1) all.backward_weights += 2 * rows * factors[i].size();
  }
  return all;
}

}  // namespace detail

/// L (a Dense, a MultiHeadAttention or a GroupQueryAttention) whose kernels are W + A B: W and the
/// biases are frozen, and no gradient is computed for them; A [inputs x Rank] and B [Rank x units]
/// are trained. B is 0 at first, so that training begins at what L computes. The factor of A B,
/// alpha / rank elsewhere, is 1, Keras's default. Of an attention the kernels of query and value
/// have factors, PEFT's default.
///
/// The frozen variables have L's names: load_weights(base, {.by_name = true}) takes them from a
/// file of the model without LoRA. save_adapters writes the factors alone, and merged_weights are
/// the weights of the model without LoRA (saving/adapters.hpp); exporters take that model. Hu et
/// al., "LoRA", arXiv 2106.09685, 2021.
/// Use: `LoRA<Dense<10>, 4>`: Shape<20> -> Shape<10>; lora_kernel_a (20, 4), lora_kernel_b (4, 10);
/// not trained: kernel (20, 10), bias (10). Keras: `layer.enable_lora(4)`.
template <class L, std::size_t Rank>
struct LoRA {
  static_assert(detail::takes_lora<L>,
                "lockstep: LoRA takes a Dense, a MultiHeadAttention or a GroupQueryAttention: put "
                "it around these layers, inside Sequential, Residual and Repeat");
};

template <std::size_t Units, class Activation, DenseOptions Options, std::size_t Rank>
struct LoRA<Dense<Units, Activation, Options>, Rank> {
  static_assert(Rank > 0, "lockstep: the rank of LoRA must be above 0");
  using Base = Dense<Units, Linear, Options>;

  static constexpr std::string_view name = Base::name;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return Base::template check<Position, In>();
  }
  template <class In>
  using Output = Shape<Units>;

  template <class In>
  static constexpr auto variables =
      detail::lora_factors("lora_kernel_a", "lora_kernel_b", In::size, Rank, Units);
  template <class In>
  static constexpr auto state_variables = detail::constant_variables<Base, In>();
  template <class In>
  static constexpr Flop flop = detail::lora_flop(Base::template frozen_flop<In>, variables<In>, 1);

  /// x A, and what the activation keeps.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return Rank * stride + detail::slope_size<Activation>(Units * stride);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    return detail::LowRank<float>::temporary_size(Units, Rank, stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dense_forward<T>({In::size, Units, pass.x.stride()}, pass.x.data(),
                              pass.state[0].data(), detail::bias<Options.use_bias>(pass.state),
                              pass.y.data());
    factors<In, T>(pass).forward(pass.x.data(), pass.y.data());
    if constexpr (!detail::is_identity<Activation>)
      detail::activate<Activation, T>(Units * pass.y.stride(), pass.y.data(), pass.y.data(),
                                      pass.scratch.data() + Rank * pass.x.stride());
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    if constexpr (!detail::is_identity<Activation>)
      detail::activation_gradient<Activation, T>(
          Units * pass.dy.stride(), pass.dy.data(), pass.y.data(),
          pass.scratch.data() + Rank * pass.x.stride(), pass.dy.data());
    factors<In, T>(pass).gradients(pass.x.data(), pass.dy.data(), pass.gradients[0].data(),
                                   pass.gradients[1].data());
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    kernels::dense_input_gradient<T>({In::size, Units, pass.x.stride()}, pass.state[0].data(),
                                     pass.dy.data(), pass.dx.data());
    factors<In, T>(pass).add_input_gradient(pass.dx.data());
  }

 private:
  template <class In, class T, class Pass>
  static detail::LowRank<T> factors(const Pass& pass) {
    return {In::size,
            Units,
            Rank,
            pass.x.stride(),
            pass.weights[0].data(),
            pass.weights[1].data(),
            pass.scratch.data(),
            pass.temporary.data()};
  }
};

template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options,
          std::size_t Rank>
struct LoRA<MultiHeadAttention<Heads, KeyDim, Options>, Rank> {
  static_assert(Rank > 0, "lockstep: the rank of LoRA must be above 0");
  using Base = MultiHeadAttention<Heads, KeyDim, Options>;

  static constexpr std::string_view name = Base::name;
  static constexpr std::string_view class_name = Base::class_name;
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return Base::template check<Position, In>();
  }
  template <class In>
  using Output = typename Base::template Output<In>;

 private:
  template <class In>
  static constexpr detail::AttentionLayout layout() {
    return detail::attention_layout<In, In>(Heads, KeyDim, Options);
  }
  template <class In>
  static constexpr std::size_t stride(std::size_t samples) {
    return layout<In>().size(samples).query_stride;
  }
  template <class In>
  static constexpr std::size_t factors_temporary(std::size_t samples) {
    const detail::AttentionLayout l = layout<In>();
    return detail::LowRank<float>::temporary_size(
        std::max(l.queries_of_heads(), l.values_of_heads()), Rank, stride<In>(samples));
  }

 public:
  template <class In>
  static constexpr auto variables = [] {
    constexpr detail::AttentionLayout l = layout<In>();
    const auto query = detail::lora_factors("query/lora_kernel_a", "query/lora_kernel_b",
                                            l.query_width, Rank, l.heads, l.key_dim);
    const auto value = detail::lora_factors("value/lora_kernel_a", "value/lora_kernel_b",
                                            l.value_width, Rank, l.key_value_heads, l.value_dim);
    return std::array{query[0], query[1], value[0], value[1]};
  }();
  template <class In>
  static constexpr auto state_variables = detail::constant_variables<Base, In>();
  template <class In>
  static constexpr Flop flop =
      detail::lora_flop(Base::template frozen_flop<In>, variables<In>, In::positions);

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Base::template scratch<In>(samples) + 2 * Rank * stride<In>(samples);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return Base::template temporary<In>(samples) + factors_temporary<In>(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const auto factors = factors_of<In, T>(pass, {});
    work<In, T>(pass, factors)
        .forward(pass.x.data(), pass.x.data(), pass.mask, pass.mask, pass.y.data());
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    const auto factors = factors_of<In, T>(pass, pass.gradients);
    work<In, T>(pass, factors)
        .backward(pass.x.data(), pass.x.data(), pass.dy.data(), {}, nullptr, nullptr);
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const auto factors = factors_of<In, T>(pass, pass.gradients);
    work<In, T>(pass, factors)
        .backward(pass.x.data(), pass.x.data(), pass.dy.data(), {}, pass.dx.data(), pass.dx.data());
  }

 private:
  template <class In, class T, class Pass>
  static detail::AttentionFactors<T> factors_of(const Pass& pass, Slices<T> gradients) {
    const std::size_t samples = pass.x.samples() / In::positions;
    return {.rank = Rank,
            .weights = pass.weights,
            .gradients = gradients,
            .hidden = pass.scratch.data() + Base::template scratch<In>(samples),
            .temporary = pass.temporary.data() + Base::template temporary<In>(samples)};
  }
  template <class In, class T, class Pass>
  static detail::AttentionWork<T> work(const Pass& pass,
                                       const detail::AttentionFactors<T>& factors) {
    return {layout<In>(), pass.context,   pass.x.samples() / In::positions,     pass.state,
            pass.scratch, pass.temporary, Base::template rotary_table<In, T>(), &factors};
  }
};

}}  // namespace lockstep
