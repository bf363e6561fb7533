// The layers of a container one after the other: their shapes, and the tables that run them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/run_layers.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Whether all types are complete. g++ prints the name in its first message about a layer without
/// its <>, and reports what a layer asserts of its arguments where the model is named, before long
/// notes.
template <class... Layers>
// NOLINTNEXTLINE(bugprone-sizeof-expression): it asks whether the type is complete
concept each_layer_has_its_angle_brackets = ((sizeof(Layers) > 0) && ...);

namespace detail {

template <class... At>
struct LayerList {
  static constexpr std::size_t size = sizeof...(At);
};

/// Appends a layer, if it computes something.
template <class List, class At, bool Computes = !At::aliases>
struct Computing {
  using Type = List;
};
template <class... Done, class At>
struct Computing<LayerList<Done...>, At, true> {
  using Type = LayerList<Done..., At>;
};

/// Walks the layers from first to last, handing each one's output shape to the next. `List`: a
/// LayerAt for each layer; `Steps`: those that compute something; `Below`: the Work of the last of
/// these.
template <std::size_t Position, class In, class Below, class All, class Computed, class... Rest>
struct Chain {
  using List = All;
  using Steps = Computed;
  using Output = In;
};

template <std::size_t Position, class In, class Below, class... All, class Computed, class L,
          class... Rest>
struct Chain<Position, In, Below, LayerList<All...>, Computed, L, Rest...> {
  using At = LayerAt<Position, L, In, L, Below>;
  using Next = Chain<Position + 1, typename At::Output, std::conditional_t<At::aliases, Below, L>,
                     LayerList<All..., At>, typename Computing<Computed, At>::Type, Rest...>;
  using List = typename Next::List;
  using Steps = typename Next::Steps;
  using Output = typename Next::Output;
};

/// A layer that does the work of the one after it.
template <std::size_t Position, class In, class Below, class... All, class Computed, class L,
          class A, class... Rest>
  requires FusesWith<L, A>
struct Chain<Position, In, Below, LayerList<All...>, Computed, L, A, Rest...> {
  using Work = typename A::template FusedInto<L>;
  using At = LayerAt<Position, L, In, Work, Below>;
  using AfterAt = LayerAt<Position + 1, A, typename At::Output, void, Work>;
  using Next = Chain<Position + 2, typename AfterAt::Output, Work, LayerList<All..., At, AfterAt>,
                     typename Computing<Computed, At>::Type, Rest...>;
  using List = typename Next::List;
  using Steps = typename Next::Steps;
  using Output = typename Next::Output;
};

template <class In, class... Layers>
using ChainOf = Chain<0, In, void, LayerList<>, LayerList<>, Layers...>;

/// The Flop of layers one after the other, `times` times. Without a gradient of the input, backward
/// ends at the first layer with variables.
template <class... At>
consteval Flop flop_in_a_row(LayerList<At...>, std::size_t times = 1) {
  Flop all;
  bool is_below_trained = false;
  const auto add = [&](Flop flop, bool is_trained) {
    if (is_below_trained) flop.backward_weights = flop.backward;
    if (!is_below_trained && !is_trained) flop.backward_weights = 0;
    is_below_trained |= is_trained;
    all += flop;
  };
  for (std::size_t i = 0; i < times; ++i)
    (add(flop_of<typename At::Layer, typename At::Input>(),
         !variables_of<typename At::Layer, typename At::Given>().empty()),
     ...);
  return all;
}

template <class... At>
consteval auto layer_infos(LayerList<At...>) {
  return std::array<LayerInfo, sizeof...(At)>{At::info()...};
}

/// The places of the layers that compute something, `Count` of all.
template <std::size_t Count, class... At>
consteval auto layer_places(LayerList<At...>) {
  constexpr std::size_t size = sizeof...(At);
  const std::array<LayerPlace, size> all{At::place()...};
  const std::array<bool, size> aliases{At::aliases...};
  const std::array<std::size_t, size> layer_counts{layer_count_of<typename At::Layer>()...};
  std::array<LayerPlace, Count> places{};
  LayerPlace before{};
  std::size_t next = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (!aliases[i]) {
      LayerPlace place = all[i];
      place.position = before.position;
      place.first_variable = before.first_variable;
      place.first_state_variable = before.first_state_variable;
      places[next++] = place;
    }
    before.position += layer_counts[i];
    before.first_variable += all[i].variables;
    before.first_state_variable += all[i].state_variables;
  }
  return places;
}

template <class T, class... At>
consteval auto forward_calls(LayerList<At...>) {
  return std::array<ForwardCall<T>, sizeof...(At)>{At::template forward_call<T>()...};
}

/// What each layer does in backward. Called are those with variables and all after them, or all
/// where the gradient of the container's input is wanted.
template <class T, bool InputGradient, class... At>
consteval auto backward_roles(LayerList<At...>) {
  constexpr std::size_t size = sizeof...(At);
  const std::array<bool, size> trained{
      !variables_of<typename At::Layer, typename At::Given>().empty()...};
  const std::array<bool, size> passes{At::template passes_through<T>...};
  std::array<BackwardRole, size> roles{};
  std::size_t begin = 0;
  while (!InputGradient && begin < size && !trained[begin]) ++begin;
  for (std::size_t i = begin; i < size; ++i) {
    roles[i].called = true;
    roles[i].input_gradient = InputGradient || i > begin;
    roles[i].goes_through = i > begin && passes[i];
    if (roles[i].goes_through) roles[i - 1].came_through = true;
  }
  return roles;
}

template <class T, bool InputGradient, class... At, std::size_t... I>
consteval auto backward_calls(LayerList<At...>, std::index_sequence<I...>) {
  [[maybe_unused]] constexpr auto roles =  // (not used where there are no layers)
      backward_roles<T, InputGradient>(LayerList<At...>{});
  std::array<BackwardCall<T>, sizeof...(At)> calls{At::template backward_call<T, roles[I]>()...};
  if constexpr (InputGradient && sizeof...(At) > 0) calls[0].dx = GradientPlace::given;
  return calls;
}
template <class T, bool InputGradient, class... At>
consteval auto backward_calls(LayerList<At...> list) {
  return backward_calls<T, InputGradient>(list, std::index_sequence_for<At...>{});
}

/// The variables of all layers, one after the other: `Variables` is a member of LayerInfo.
template <auto Variables>
consteval std::size_t variable_count(std::span<const LayerInfo> layers) {
  std::size_t count = 0;
  for (const LayerInfo& layer : layers) count += (layer.*Variables).size();
  return count;
}
template <auto Variables, std::size_t Count>
consteval auto concatenate(std::span<const LayerInfo> layers) {
  std::array<Variable, Count> all{};
  std::size_t next = 0;
  for (const LayerInfo& layer : layers)
    for (const Variable& variable : layer.*Variables) all[next++] = variable;
  return all;
}

}  // namespace detail
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A ContainerLayer, but for its name and Output. `Tables` has layer_count, layers<In>, and what
/// run_layers.hpp needs: places<In>, forward_calls<In, T>, backward_calls<In, T, InputGradient>.
template <class Tables>
struct LayersInARow {
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr std::size_t layer_count = Tables::layer_count;

  template <class In>
  static constexpr auto layers = Tables::template layers<In>;

  template <class In>
  static constexpr Flop flop = Tables::template flop<In>;

  /// The trained variables of all layers, first layer first.
  template <class In>
  static constexpr auto variables =
      concatenate<&LayerInfo::variables, variable_count<&LayerInfo::variables>(layers<In>)>(
          layers<In>);
  template <class In>
  static constexpr auto state_variables =
      concatenate<&LayerInfo::state_variables,
                  variable_count<&LayerInfo::state_variables>(layers<In>)>(layers<In>);

  template <class In>
  static constexpr const KeptFormat* kept_format =
      Tables::template places<In>.empty() ? nullptr : Tables::template places<In>.back().kept;

  template <class In>
  static constexpr bool backward_ignores_y =
      !Tables::template places<In>.empty() && !Tables::template places<In>.back().reads_y;

  // As SummingLayer says. (Of one layer alone, what is added to dy might be read again.)
  template <class In>
  static constexpr bool adds_to_output = [] {
    bool adds = false;
    for (const LayerPlace& layer : Tables::template places<In>) adds = layer.adds_to_output;
    return adds;
  }();
  template <class In, class T>
  static constexpr bool keeps_dy = !Tables::template backward_calls<In, T, true>.empty() &&
                                   Tables::template backward_calls<In, T, true>.back().keeps_dy;
  template <class In, class T>
  static constexpr bool adds_to_dx =
      !Tables::template backward_calls<In, T, true>.empty() &&
      Tables::template backward_calls<In, T, true>.front().adds_to_dx;
  template <class In, class T>
  static constexpr bool adds_to_dy = Tables::template backward_calls<In, T, true>.size() > 1 &&
                                     keeps_dy<In, T>&& adds_to_dx<In, T>;

  /// Elements: all inner activations, and the layers' scratch.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return container_scratch(Tables::template places<In>, samples);
  }
  /// Elements: two gradients between layers, and what one layer needs.
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return container_temporary(Tables::template places<In>, samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    run_forward<T>(Tables::template places<In>, Tables::template forward_calls<In, T>, pass);
  }

  /// Calls f(position, y) for the output of each layer that computes one, as forward has left them.
  /// `first` is the position of this container in the flattened model.
  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    visit_outputs<T>(Tables::template places<In>, Tables::template forward_calls<In, T>, first,
                     pass, OutputVisitor<T>(f));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<T>(Tables::template places<In>, Tables::template backward_calls<In, T, true>,
                    pass);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<T>(Tables::template places<In>, Tables::template backward_calls<In, T, false>,
                    pass);
  }
};

}}}  // namespace lockstep::detail
