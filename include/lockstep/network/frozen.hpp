// Frozen: a layer that is not trained.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_at.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The variables of L that a step changes when it is trained, then its others.
template <class L, class In>
consteval auto constant_variables() {
  constexpr std::size_t trained = variables_of<L, In>().size(),
                        others = state_variables_of<L, In>().size();
  std::array<Variable, trained + others> all{};
  std::copy(variables_of<L, In>().begin(), variables_of<L, In>().end(), all.begin());
  std::copy(state_variables_of<L, In>().begin(), state_variables_of<L, In>().end(),
            all.begin() + trained);
  for (Variable& variable : all) variable.is_constant = true;
  return all;
}

/// What Frozen has only around a container.
template <class L>
struct FrozenContainer {};
template <class L>
  requires requires { L::layer_count; }
struct FrozenContainer<L> {
  static constexpr std::size_t layer_count = L::layer_count;
  template <class In>
  static constexpr auto layers = L::template layers<In>;

  template <class In, class T, class F>
    requires requires(std::size_t first, const ForwardPass<T>& pass, F& f) {
      L::template each_output<In, T>(first, pass, f);
    }
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    L::template each_output<In, T>(first, pass, f);
  }
};

template <class L>
struct FrozenAlias {};
template <AliasingLayer L>
struct FrozenAlias<L> {
  static constexpr bool aliases_input = true;
};

template <class L>
struct FrozenSequence {};
template <SequenceLayer L>
struct FrozenSequence<L> {
  static constexpr bool takes_sequences = true;
};

}  // namespace detail

/// L (a layer or a container), which is not trained: its variables are neither updated nor reduced.
/// No gradient is computed for what lies below the lowest layer that is trained, nor for the
/// variables of a frozen Dense or MultiHeadAttention. As in Keras, a BatchNormalization in it uses
/// its moving statistics and leaves them alone, and a Dropout is active. Its names, and so its
/// values in files of weights, are those of L: load the weights of a model that was trained without
/// Frozen, and train the rest.
/// @code
/// using Tuned = Sequential<Input<28, 28, 1>, Frozen<Features>, Dense<10>>;
/// @endcode
/// Use: `Frozen<Dense<10>>`: Shape<20> -> Shape<10>; not trained: kernel (20, 10), bias (10).
/// Keras: `trainable = False`.
template <class L>
struct Frozen : detail::FrozenContainer<L>, detail::FrozenAlias<L>, detail::FrozenSequence<L> {
  static constexpr std::string_view name = L::name;
  static constexpr std::string_view class_name = detail::class_name_of_type<L>();
  static constexpr bool is_frozen = true;
  static constexpr bool keeps_padding = detail::keeps_padding<L>;
  static constexpr bool keeps_mask = detail::keeps_mask<L>;

  template <std::size_t Position, class In>
  static consteval bool check() {
    if constexpr (requires { L::template check<Position, In>(); })
      return L::template check<Position, In>();
    else
      return true;
  }

  template <class In>
  using Output = typename L::template Output<In>;

  template <class In>
  static constexpr auto state_variables = detail::constant_variables<L, In>();

  template <class In>
  static constexpr const detail::KeptFormat* kept_format = detail::kept_format<L, In>();

  /// (Without backward_input, the gradients of its weights are computed with that of its input.)
  template <class In>
  static constexpr Flop flop = [] {
    if constexpr (requires { L::template frozen_flop<In>; })
      return L::template frozen_flop<In>;
    else
      return detail::flop_of<L, In>();
  }();

  /// `size`: as L takes it, a stride or a number of samples.
  template <class In>
  static constexpr std::size_t scratch(std::size_t size) {
    if constexpr (requires { L::template scratch<In>(size); })
      return L::template scratch<In>(size);
    else
      return 0;
  }
  /// And room for gradients that are not wanted.
  template <class In>
  static constexpr std::size_t temporary(std::size_t size) {
    if constexpr (requires { L::template temporary<In>(size); })
      return gradient_elements<In>() + L::template temporary<In>(size);
    else
      return gradient_elements<In>();
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    constexpr std::size_t trained = detail::variables_of<L, In>().size();
    StepContext context = pass.context;
    context.frozen = true;
    L::template forward<In, T>({.context = context,
                                .weights = pass.state.first(trained),
                                .state = pass.state.subspan(trained),
                                .x = pass.x,
                                .y = pass.y,
                                .scratch = pass.scratch,
                                .mask = pass.mask,
                                .mask_of_y = pass.mask_of_y,
                                .temporary = pass.temporary.subspan(gradient_elements<In>())});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    constexpr std::size_t trained = detail::variables_of<L, In>().size();
    StepContext context = pass.context;
    context.frozen = true;
    context.gradients_ready = context.variables_done = {};
    std::array<std::span<T>, trained> gradients;  // with backward_input none is written
    T* next = pass.temporary.data();
    for (std::size_t i = 0; i < trained && !skips_gradients<In>; ++i) {
      const std::size_t size = detail::variables_of<L, In>()[i].size();
      gradients[i] = {next, size};
      next += padded_batch(size);
    }
    const BackwardPass<T> own{.context = context,
                              .weights = pass.state.first(trained),
                              .state = pass.state.subspan(trained),
                              .x = pass.x,
                              .y = pass.y,
                              .dy = pass.dy,
                              .dx = pass.dx,
                              .gradients = skips_gradients<In> ? Slices<T>{} : gradients,
                              .scratch = pass.scratch,
                              .temporary = pass.temporary.subspan(gradient_elements<In>())};
    if constexpr (skips_gradients<In>)
      L::template backward_input<In, T>(own);
    else
      L::template backward<In, T>(own);
  }

 private:
  template <class In>
  static constexpr bool skips_gradients =
      requires(const BackwardPass<float>& pass) { L::template backward_input<In, float>(pass); };
  template <class In>
  static constexpr std::size_t gradient_elements() {
    std::size_t elements = 0;
    if (skips_gradients<In>) return elements;
    for (const Variable& variable : detail::variables_of<L, In>())
      elements += padded_batch(variable.size());
    return elements;
  }
};

}}  // namespace lockstep
