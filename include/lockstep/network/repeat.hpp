// Repeat: a layer several times, each time with its own variables.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/run_layers.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// See LayersInARow. (All of it is made of one LayerAt, so that L is compiled once.)
template <std::size_t Times, class L>
struct RepeatTables {
  static constexpr std::size_t layer_count = Times * layer_count_of<L>();
  template <class In>
  using At = LayerAt<0, L, In>;

  template <class In>
  static constexpr std::array<LayerInfo, Times> layers = [] {
    std::array<LayerInfo, Times> all{};
    all.fill(At<In>::info());
    return all;
  }();

  template <class In>
  static constexpr Flop flop = flop_in_a_row(LayerList<At<In>>{}, Times);

  template <class In>
  static constexpr std::array<LayerPlace, Times> places = [] {
    std::array<LayerPlace, Times> all{};
    all.fill(At<In>::place());
    for (std::size_t i = 0; i < Times; ++i) {
      all[i].position = i * layer_count_of<L>();
      all[i].first_variable = i * all[i].variables;
      all[i].first_state_variable = i * all[i].state_variables;
    }
    return all;
  }();

  template <class In, class T>
  static constexpr std::array<ForwardCall<T>, Times> forward_calls = [] {
    std::array<ForwardCall<T>, Times> all{};
    all.fill(At<In>::template forward_call<T>());
    return all;
  }();

  template <class In, class T, bool InputGradient>
  static constexpr std::array<BackwardCall<T>, Times> backward_calls = [] {
    constexpr bool trains = !variables_of<L, typename At<In>::Given>().empty();
    constexpr BackwardRole first{.called = InputGradient || trains,
                                 .input_gradient = InputGradient};
    constexpr BackwardRole later{.called = InputGradient || trains, .input_gradient = true};
    std::array<BackwardCall<T>, Times> all{};
    all.fill(At<In>::template backward_call<T, later>());
    all[0] = At<In>::template backward_call<T, first>();
    if (InputGradient) all[0].dx = GradientPlace::given;
    return all;
  }();
};

/// The position shows beside the compile-time error.
template <std::size_t Position, class L, class In>
concept KeepsShape = std::is_same_v<typename LayerAt<Position, L, In>::Output, In>;
template <std::size_t Position, class L, class In>
concept Computes = !LayerAt<Position, L, In>::aliases;

}  // namespace detail

/// L, Times times one after the other, each with its own variables: the blocks of a deep model,
/// `Repeat<12, Block>`. L keeps the shape of its input. It costs the compile time of one L.
/// Use: `Repeat<3, Dense<20, ReLU>>`: Shape<20> -> Shape<20>; kernel (20, 20), bias (20), kernel
/// (20, 20), bias (20), kernel (20, 20), bias (20). Keras: none (a loop).
template <std::size_t Times, class L>
struct Repeat : detail::LayersInARow<detail::RepeatTables<Times, L>> {
  static_assert(Times > 0, "lockstep: Repeat needs a number of times of at least 1");
  static constexpr std::string_view name = "repeat";
  using AnnouncesGradients = Repeat;

  template <class In>
  using Output = In;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        detail::KeepsShape<Position, L, In>,
        "lockstep: the layer that Repeat repeats must have an output of its input's shape");
    static_assert(detail::Computes<Position, L, In>,
                  "lockstep: Repeat needs a layer that computes something");
    return true;
  }
};

}}  // namespace lockstep
