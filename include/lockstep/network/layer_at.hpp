// A layer at its place in a container: checks with readable messages, and what it hands over.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/run_layers.hpp"

// Forward: an Activation after a FusibleLayer is done by that layer's WithActivation. Both stay in
// the list of layers, for names and summary; the first one's Work is the fused layer, that of the
// Activation is void: it then aliases its input.
//
// Backward: a BackwardThroughLayer goes on through the activation of the layer below it. That
// layer's Preactivation then goes backward in its place.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

struct SomeActivation;

/// Whether L would take over an activation now.
template <class L>
inline constexpr bool takes_activation =
    requires { typename L::template WithActivation<SomeActivation>; };

/// Whether layer L can do the work of layer A after it: then that is A::FusedInto<L>.
template <class L, class A>
concept FusesWith = requires { typename A::template FusedInto<L>; };

/// Whether Work, which runs after Below, goes backward through Below's activation too.
template <class Work, class Below, class In, class T>
inline constexpr bool passes_through = false;
template <class Work, FusibleLayer Below, class In, class T>
inline constexpr bool passes_through<Work, Below, In, T> =
    BackwardThroughLayer<Work, typename Below::OutputActivation, In, T>;

/// What goes backward for Work: its Preactivation, if dy has come through its activation already.
template <class Work, bool CameThrough>
struct BackwardWork {
  using Type = Work;
};
template <class Work>
struct BackwardWork<Work, true> {
  using Type = typename Work::Preactivation;
};

template <class L, class In>
consteval std::span<const Variable> variables_of() {
  if constexpr (requires { L::template variables<In>; })
    return L::template variables<In>;
  else
    return {};
}

template <class L, class In>
consteval std::span<const Variable> state_variables_of() {
  if constexpr (requires { L::template state_variables<In>; })
    return L::template state_variables<In>;
  else
    return {};
}

/// The Flop of L for a sample of shape In. A layer that does not say is named if it may have
/// products, that is, a variable of two dimensions or more.
template <class L, class In>
consteval Flop flop_of() {
  using G = Given<L, In>;
  Flop flop;
  if constexpr (requires { L::template flop<typename G::Type>; })
    flop = L::template flop<typename G::Type>;
  else
    for (const Variable& variable : variables_of<L, typename G::Type>())
      if (variable.rank > 1) flop.uncounted = L::name;
  return G::positions * flop;
}

template <class L>
consteval std::size_t layer_count_of() {
  if constexpr (requires { L::layer_count; })
    return L::layer_count;
  else
    return 1;
}

template <class L>
consteval std::string_view class_name_of_type() {
  if constexpr (requires { L::class_name; })
    return L::class_name;
  else
    return {};
}

template <class L>
inline constexpr bool is_frozen = requires { requires L::is_frozen; };

/// (A layer that is applied row by row keeps the rows.)
template <class L>
inline constexpr bool keeps_mask = !SequenceLayer<L>;
template <SequenceLayer L>
inline constexpr bool keeps_mask<L> = requires { requires L::keeps_mask; };

template <class L>
inline constexpr bool keeps_padding = requires { requires L::keeps_padding; };

/// Whether L can do so, as SummingLayer says.
template <class L, class In>
consteval bool adds_to_output() {
  if constexpr (SummingLayer<L> && requires { L::template adds_to_output<In>; })
    return L::template adds_to_output<In>;
  else
    return false;
}
template <class L, class In, class T>
consteval bool keeps_dy() {
  if constexpr (SummingLayer<L> && requires { L::template keeps_dy<In, T>; })
    return L::template keeps_dy<In, T>;
  else
    return false;
}
template <class L, class In, class T>
consteval bool adds_to_dx() {
  if constexpr (SummingLayer<L> && requires { L::template adds_to_dx<In, T>; })
    return L::template adds_to_dx<In, T>;
  else
    return false;
}
template <class L, class In, class T>
consteval bool adds_to_dy() {
  if constexpr (SummingLayer<L> && requires { L::template adds_to_dy<In, T>; })
    return L::template adds_to_dy<In, T>;
  else
    return false;
}

/// How what L gives may be kept: null where L does not say.
template <class L, class In>
consteval const KeptFormat* kept_format() {
  if constexpr (requires { L::template kept_format<In>; })
    return L::template kept_format<In>;
  else
    return nullptr;
}

// What the tables of a container point to. The names contain neither a position nor another layer,
// so equal layers share one function. For a layer that does not see to the padding, they make it
// finite.

template <class Work, class In, class T>
void forward_layer(const ForwardPass<T>& pass) {
  Work::template forward<In, T>(pass);
  if constexpr (!keeps_padding<Work>) pass.y.clear_padding();
}

template <class Work, class In, class T>
void backward_layer(const BackwardPass<T>& pass) {
  Work::template backward<In, T>(pass);
  if constexpr (!keeps_padding<Work>) pass.dx.clear_padding();
}

template <class Work, class In, class T>
void backward_weights_of_layer(const BackwardPass<T>& pass) {
  Work::template backward_weights<In, T>(pass);
}

template <class Work, class Function, class In, class T>
void backward_through_layer(const BackwardPass<T>& pass) {
  Work::template backward_through<Work, Function, In, T>(pass);
  if constexpr (!keeps_padding<Work>) pass.dx.clear_padding();
}

template <class Work, class In, class T>
void each_output_of_layer(std::size_t first, const ForwardPass<T>& pass, OutputVisitor<T> visit) {
  Work::template each_output<In, T>(first, pass, visit);
}

/// What a layer has to do in backward, in the company that it is in.
struct BackwardRole {
  bool called = false;
  bool came_through = false;    ///< dy has come through its activation already
  bool goes_through = false;    ///< it goes on through the activation of the layer below
  bool input_gradient = false;  ///< dx is wanted
};

template <class L>
inline constexpr bool is_activation_function = ActivationFunction<L>;
/// The position is a parameter so that the compiler's message shows it.
template <std::size_t Position, class L>
concept NoActivationFunction = !is_activation_function<L>;

/// Layer number Position of a container, with the shape that it is given. The names of this
/// template's arguments are what a user reads beside a compile-time error, so they begin with the
/// layer's position, the layer, and its input shape.
///
/// `WorkType` does what the layer does: the layer itself, or the one that it was fused into with
/// the layer after it; void where the layer before does it. `BelowType` is the WorkType of the
/// layer that computes the input; void for none.
template <std::size_t Position, class L, class In, class WorkType = L, class BelowType = void>
struct LayerAt {
  static_assert(NamedLayer<L>,
                "lockstep: this type is no layer: it has no static constexpr member 'name' (see "
                "layers/concepts.hpp)");
  static_assert(NoActivationFunction<Position, L>,
                "lockstep: ReLU (or Tanh, Sigmoid, ...) is an activation, not a layer: write "
                "ls::Activation<ls::ReLU>, or "
                "give it to the layer before, as in ls::Dense<10, ls::ReLU>");

  /// What the layer sees.
  using Given = typename detail::Given<L, In>::Type;

  static_assert([] {
    if constexpr (requires { L::template check<Position, Given>(); })
      return L::template check<Position, Given>();
    else
      return true;
  }());

  static_assert(
      !takes_activation<L> || requires { typename L::Preactivation; },
      "lockstep: a layer with WithActivation needs a Preactivation too (see FusibleLayer in "
      "layers/concepts.hpp)");

  using Layer = L;
  using Work = WorkType;
  using Below = BelowType;
  using Input = In;
  using Output = typename OutputShape<L, In>::Type;

  static constexpr bool is_container = ContainerLayer<L, In>;
  static_assert(
      is_container || !requires { L::layer_count; },
      "lockstep: a layer with layer_count needs takes_sequences and layers<In> too (see "
      "ContainerLayer in layers/concepts.hpp)");
  static constexpr bool aliases = aliases_input<L, In> || std::is_void_v<Work>;
  static_assert(!aliases || Output::size == Input::size,
                "lockstep: a layer with aliases_input (Reshape, Flatten, an Input that is not the "
                "first layer) must have an output of as many elements as its input");
  static_assert(
      [] {
        if constexpr (!std::is_void_v<Work> && !std::is_same_v<Work, L>)
          return std::is_same_v<typename OutputShape<Work, In>::Type, Output> &&
                 variables_of<Work, Given>().size() == variables_of<L, Given>().size() &&
                 state_variables_of<Work, Given>().size() == state_variables_of<L, Given>().size();
        return true;
      }(),
      "lockstep: a layer's WithActivation must have the output and the variables of the layer "
      "itself");

  /// For names, files and summary.
  static consteval LayerInfo info() {
    LayerInfo all{.name = L::name,
                  .class_name = class_name_of_type<L>(),
                  .output_extents = Output::extents,
                  .variables = variables_of<L, Given>(),
                  .state_variables = state_variables_of<L, Given>(),
                  .layers = {},
                  .layer_count = layer_count_of<L>(),
                  .is_input = is_input<L>,
                  .is_frozen = is_frozen<L>};
    if constexpr (is_container) all.layers = L::template layers<In>;
    return all;
  }

  /// For what runs it, without the figures that depend on other layers.
  static consteval LayerPlace place() {
    LayerPlace all{.input = tensor_size<Input>,
                   .output = tensor_size<Output>,
                   .variables = variables_of<L, Given>().size(),
                   .state_variables = state_variables_of<L, Given>().size(),
                   .positions = detail::Given<L, In>::positions,
                   .keeps_mask = keeps_mask<L>,
                   .is_container = is_container,
                   .adds_to_output = detail::adds_to_output<Work, Given>(),
                   .kept = detail::kept_format<Work, Given>()};
    if constexpr (requires { Work::template scratch<Given>(std::size_t{}); })
      all.scratch = scratch_of<Work, In>;
    if constexpr (requires { Work::template temporary<Given>(std::size_t{}); })
      all.temporary = temporary_of<Work, In>;
    return all;
  }

  template <class T>
  static consteval ForwardCall<T> forward_call() {
    static_assert(ForwardLayer<L, Given, T>,
                  "lockstep: this layer needs a static template function forward<In, T>(const "
                  "ForwardPass<T>&)");
    ForwardCall<T> call{.run = forward_layer<Work, Given, T>};
    if constexpr (requires(const ForwardPass<T>& pass, OutputVisitor<T>& visit) {
                    Work::template each_output<Given, T>(std::size_t{}, pass, visit);
                  })
      call.each_output = each_output_of_layer<Work, Given, T>;
    return call;
  }

  /// Whether backward can go on through the activation of Below.
  template <class T>
  static constexpr bool passes_through = detail::passes_through<Work, Below, Given, T>;

  template <class T, BackwardRole Role>
  static consteval BackwardCall<T> backward_call() {
    static_assert(BackwardLayer<L, Given, T>,
                  "lockstep: this layer needs a static template function backward<In, T>(const "
                  "BackwardPass<T>&)");
    if constexpr (Role.called)
      return backward_call_of<T, Role, typename BackwardWork<Work, Role.came_through>::Type>();
    else
      return {};
  }

 private:
  template <class T, BackwardRole Role, class Run>
  static consteval BackwardCall<T> backward_call_of() {
    constexpr bool announces = AnnouncingLayer<Run>;
    if constexpr (Role.goes_through) {
      using Function = typename Below::OutputActivation;
      return {backward_through_layer<Run, Function, Given, T>, GradientPlace::of_x, announces};
    } else if constexpr (!Role.input_gradient && requires(const BackwardPass<T>& pass) {
                           Run::template backward_weights<Given, T>(pass);
                         }) {
      return {backward_weights_of_layer<Run, Given, T>, GradientPlace::nowhere, announces};
    } else {
      constexpr bool in_place = InPlaceLayer<Run> && tensor_size<Input> == tensor_size<Output>;
      return {backward_layer<Run, Given, T>,
              in_place ? GradientPlace::of_dy : GradientPlace::buffer,
              announces,
              keeps_dy<Run, Given, T>(),
              adds_to_dx<Run, Given, T>(),
              adds_to_dy<Run, Given, T>()};
    }
  }
};

}}}  // namespace lockstep::detail
