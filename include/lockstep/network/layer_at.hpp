// A layer at its place in a model: input shape, optional hooks with their defaults, offsets.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class L>
inline constexpr bool aliases_input = false;
template <AliasingLayer L>
inline constexpr bool aliases_input<L> = true;

template <class L, class In>
consteval auto variables_of() {
  if constexpr (requires { L::template variables<In>; })
    return L::template variables<In>;
  else
    return std::array<Variable, 0>{};
}

template <class L, class In>
consteval auto state_variables_of() {
  if constexpr (requires { L::template state_variables<In>; })
    return L::template state_variables<In>;
  else
    return std::array<Variable, 0>{};
}

/// Elements that L keeps from forward to backward, rounded up so that what follows stays aligned.
template <class L, class In>
constexpr std::size_t scratch_of(std::size_t stride) {
  if constexpr (requires { L::template scratch<In>(stride); })
    return padded_batch(L::template scratch<In>(stride));
  else
    return 0;
}

struct SomeActivation;

/// Whether L has a WithActivation now.
template <class L>
inline constexpr bool takes_activation = requires { typename L::template WithActivation<SomeActivation>; };

/// Whether L is made of layers, like a nested Sequential.
template <class L>
inline constexpr bool is_container = requires { L::layer_count; };

/// How many positions L takes in the flattened model.
template <class L>
consteval std::size_t layer_count_of() {
  if constexpr (is_container<L>)
    return L::layer_count;
  else
    return 1;
}

template <class L>
inline constexpr bool is_activation_function = ActivationFunction<L>;
/// The position is a parameter so that the compiler's message shows it.
template <std::size_t Position, class L>
concept NoActivationFunction = !is_activation_function<L>;

/// Layer number Position of a model, with the shape that it is given. The names of this template's arguments are what a
/// user reads beside a compile-time error, so they are the layer's position, the layer, and its input shape.
///
/// `WorkType` does what the layer does: the layer itself, or the one that it was fused into with the layer after it; void
/// where the layer before does it.
template <std::size_t Position, class L, class In, class WorkType = L>
struct LayerAt {
  static_assert(NamedLayer<L>,
                "lockstep: this type is no layer: it has no static constexpr member 'name' (see layers/concepts.hpp)");
  static_assert(
      NoActivationFunction<Position, L>,
      "lockstep: ReLU (or Tanh, Sigmoid, ...) is an activation, not a layer: write ls::Activation<ls::ReLU>, or "
      "give it to the layer before, as in ls::Dense<10, ls::ReLU>");

  static_assert([] {
    if constexpr (requires { L::template check<Position, In>(); })
      return L::template check<Position, In>();
    else
      return true;
  }());

  static constexpr std::size_t position = Position;
  static_assert(
      !detail::takes_activation<L> || requires { typename L::Preactivation; },
      "lockstep: a layer with WithActivation needs a Preactivation too (see layers/concepts.hpp)");

  using Layer = L;
  using Work = WorkType;
  using Input = In;
  using Output = typename L::template Output<In>;

  static constexpr bool aliases = aliases_input<L> || std::is_void_v<Work>;
  static_assert(
      !aliases || Output::size == Input::size,
      "lockstep: a layer with aliases_input (Reshape, Flatten, an Input that is not the first layer) must have "
      "an output of as many elements as its input");
  static_assert(
      [] {
        if constexpr (!std::is_void_v<Work> && !std::is_same_v<Work, L>)
          return std::is_same_v<typename Work::template Output<In>, Output> &&
                 variables_of<Work, In>().size() == variables_of<L, In>().size() &&
                 state_variables_of<Work, In>().size() == state_variables_of<L, In>().size();
        return true;
      }(),
      "lockstep: a layer's WithActivation must have the output and the variables of the layer itself");
  static constexpr auto variables = variables_of<L, In>();
  static constexpr auto state_variables = state_variables_of<L, In>();
  static constexpr std::size_t layer_count = layer_count_of<L>();
  static constexpr bool keeps_padding = [] {
    if constexpr (requires { Work::keeps_padding; })
      return Work::keeps_padding;
    else
      return false;
  }();

  static constexpr bool backward_in_place = [] {
    if constexpr (requires { Work::backward_in_place; })
      return Work::backward_in_place && Input::size == Output::size;
    else
      return false;
  }();

  static constexpr bool announces_gradients = [] {
    if constexpr (requires { typename Work::AnnouncesGradients; })
      return std::is_same_v<typename Work::AnnouncesGradients, Work>;
    else
      return false;
  }();

  static constexpr std::size_t scratch(std::size_t stride) { return scratch_of<Work, In>(stride); }

  /// Forward, with the padding of y made finite for layers that do not see to it.
  template <class T>
  static void forward(const ForwardPass<T>& pass) {
    static_assert(ForwardLayer<L, In, T>,
                  "lockstep: this layer needs a static template function forward<In, T>(const ForwardPass<T>&)");
    Work::template forward<In, T>(pass);
    if constexpr (!keeps_padding) pass.y.clear_padding();
  }

  template <class T>
  static void backward(const BackwardPass<T>& pass) {
    static_assert(BackwardLayer<L, In, T>,
                  "lockstep: this layer needs a static template function backward<In, T>(const BackwardPass<T>&)");
    Work::template backward<In, T>(pass);
    if constexpr (!keeps_padding) pass.dx.clear_padding();
  }

  /// Backward, and on through the activation Function of the layer before: dx is in the place of x.
  template <class Function, class T>
    requires requires(const BackwardPass<T>& pass) { Work::template backward_through<Work, Function, In, T>(pass); }
  static void backward_through(const BackwardPass<T>& pass) {
    Work::template backward_through<Work, Function, In, T>(pass);
    if constexpr (!keeps_padding) pass.dx.clear_padding();
  }

  /// True when L can leave out its input gradient; else it needs a dx to throw away.
  template <class T>
  static constexpr bool can_skip_input_gradient =
      requires(const BackwardPass<T>& pass) { Work::template backward_weights<In, T>(pass); };
};

/// L = its Preactivation with its OutputActivation. (Not of a layer that inherits both.)
template <class L>
concept SeparableActivation = requires {
  requires std::is_same_v<typename L::Preactivation::template WithActivation<typename L::OutputActivation>, L>;
};

/// Layer At can go backward through the activation of the layer before it too, which is Below.
template <class At, class Below, class T>
concept PassesThrough = SeparableActivation<typename Below::Work> && requires(const BackwardPass<T>& pass) {
  At::template backward_through<typename Below::Work::OutputActivation, T>(pass);
};

/// What goes backward for At: a layer without its activation, where dy has come through that already.
template <class At, bool CameThrough>
struct Backward {
  using Type = At;
};
template <class At>
struct Backward<At, true> {
  using Type = LayerAt<At::position, typename At::Work::Preactivation, typename At::Input>;
};

template <class... At>
struct LayerList {};

/// Walks the layers from first to last, handing each one's output shape to the next.
template <std::size_t Position, class In, class Done, class... Rest>
struct Chain;

template <std::size_t Position, class In, class... Done>
struct Chain<Position, In, LayerList<Done...>> {
  using List = LayerList<Done...>;
  using Output = In;
};

template <std::size_t Position, class In, class... Done, class L, class... Rest>
struct Chain<Position, In, LayerList<Done...>, L, Rest...> {
  using At = LayerAt<Position, L, In>;
  using Next = Chain<Position + 1, typename At::Output, LayerList<Done..., At>, Rest...>;
  using List = typename Next::List;
  using Output = typename Next::Output;
};

/// An activation whose work the layer before it can do.
template <std::size_t Position, class In, class... Done, class L, class A, class... Rest>
  requires requires { typename A::template FusedInto<L>; }
struct Chain<Position, In, LayerList<Done...>, L, A, Rest...> {
  using At = LayerAt<Position, L, In, typename A::template FusedInto<L>>;
  using AfterAt = LayerAt<Position + 1, A, typename At::Output, void>;
  using Next = Chain<Position + 2, typename AfterAt::Output, LayerList<Done..., At, AfterAt>, Rest...>;
  using List = typename Next::List;
  using Output = typename Next::Output;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
