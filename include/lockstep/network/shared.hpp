// Shared: one layer that several inputs go through, with one set of variables.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/branches.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"

// A use is a branch of a Parallel: a part, then the layer. Each use is given the variables of all,
// those of the layer first; its tables say which are its part's and which the layer's.

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// See LayersInARow.
template <std::size_t Number, class L, class... Parts>
struct SharedTables {
  using Part = std::tuple_element_t<Number, std::tuple<Parts...>>;
  template <class In>
  using Chain = ChainOf<In, Part, L>;

  static constexpr std::size_t layer_count = (layer_count_of<L>() + ... + layer_count_of<Parts>());
  template <class In>
  static constexpr std::array<LayerInfo, sizeof...(Parts) + 1> layers{
      LayerAt<0, L, typename OutputShape<Part, In>::Type>::info(),
      LayerAt<0, Parts, In>::info()...};
  template <class In>
  static constexpr Flop flop = flop_in_a_row(typename Chain<In>::List{});

  /// Moves a place to where layer `index` of all is.
  template <class In>
  static constexpr void move_to(LayerPlace& place, std::size_t index) {
    place.position = place.first_variable = place.first_state_variable = 0;
    for (const LayerInfo& before : std::span(layers<In>).first(index)) {
      place.position += before.layer_count;
      place.first_variable += before.variables.size();
      place.first_state_variable += before.state_variables.size();
    }
  }
  template <class In>
  static constexpr auto places = [] {
    auto all = layer_places<Chain<In>::Steps::size>(typename Chain<In>::List{});
    move_to<In>(all.front(), 1 + Number);
    move_to<In>(all.back(), 0);
    return all;
  }();
  template <class In, class T>
  static constexpr auto forward_calls = detail::forward_calls<T>(typename Chain<In>::Steps{});
  template <class In, class T, bool InputGradient>
  static constexpr auto backward_calls =
      detail::backward_calls<T, InputGradient>(typename Chain<In>::Steps{});
};

/// A use of L. Backward runs the uses last to first: the last one sets the gradients of L, the
/// others add theirs.
template <std::size_t Number, class L, class... Parts>
struct SharedUse : LayersInARow<SharedTables<Number, L, Parts...>> {
  using Tables = SharedTables<Number, L, Parts...>;
  using Base = LayersInARow<Tables>;
  static constexpr std::string_view name = "shared";

  template <class In>
  using Output = typename Tables::template Chain<In>::Output;

  /// And room for gradients that are added to those of other uses.
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return gradient_elements<In> + Base::template temporary<In>(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const StepContext context = context_of_use(pass.context);
    Base::template forward<In, T>({.context = context,
                                   .weights = pass.weights,
                                   .state = pass.state,
                                   .x = pass.x,
                                   .y = pass.y,
                                   .scratch = pass.scratch,
                                   .mask = pass.mask,
                                   .mask_of_y = pass.mask_of_y,
                                   .temporary = pass.temporary.subspan(gradient_elements<In>)});
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass, Base::template backward<In, T>);
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass, Base::template backward_weights<In, T>);
  }

 private:
  template <class In>
  static constexpr std::span<const Variable> of_layer =
      Tables::template layers<In>.front().variables;
  template <class In>
  static constexpr std::size_t gradient_elements = [] {
    std::size_t elements = 0;
    if (Number + 1 < sizeof...(Parts))
      for (const Variable& variable : of_layer<In>) elements += padded_batch(variable.size());
    return elements;
  }();

  /// Each use draws other random numbers, as each call of a layer in Keras.
  static StepContext context_of_use(const StepContext& context) {
    StepContext own = context;
    if (Number > 0) own.seed = RandomKey(context.seed).fold_in(Number).value();
    return own;
  }

  template <class In, class T>
  static void run_backward(const BackwardPass<T>& pass, void (*backward)(const BackwardPass<T>&)) {
    constexpr std::size_t count = of_layer<In>.size();
    constexpr bool adds = Number + 1 < sizeof...(Parts);
    std::array<std::span<T>, Base::template variables<In>.size()> gradients{};
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = pass.gradients[i];
    if constexpr (adds) {
      T* next = pass.temporary.data();
      for (std::size_t i = 0; i < count; ++i) {
        gradients[i] = {next, pass.gradients[i].size()};
        next += padded_batch(gradients[i].size());
      }
    }
    const StepContext context = context_of_use(pass.context);
    backward({.context = context,
              .weights = pass.weights,
              .state = pass.state,
              .x = pass.x,
              .y = pass.y,
              .dy = pass.dy,
              .dx = pass.dx,
              .gradients = gradients,
              .scratch = pass.scratch,
              .temporary = pass.temporary.subspan(gradient_elements<In>)});
    if constexpr (adds)
      for (std::size_t i = 0; i < count; ++i)
        add_elements<T>(gradients[i].data(), gradients[i].size(), pass.gradients[i].data());
  }
};

/// What the messages of Shared are about. Printed beside it: the number of a part, from 0, its
/// output's shape, and that of the first one.
template <std::size_t Number, class Output, class FirstOutput>
concept SameInput = std::is_same_v<Output, FirstOutput>;
template <class Last, class... At>
consteval bool ends_with(LayerList<At...>) {
  bool is_last = false;
  ((is_last = std::is_same_v<typename At::Layer, Last>), ...);
  return is_last;
}
template <class L, class Steps>
concept ComputesByItself = ends_with<L>(Steps{});

template <std::size_t Number, class Output, class FirstOutput>
consteval bool check_shared_input() {
  static_assert(SameInput<Number, Output, FirstOutput>,
                "lockstep: the parts of Shared must have outputs of one shape, which is the input "
                "of its layer");
  return true;
}

template <class Merge, class Numbers, class L, class... Parts>
struct SharedUses {
  static_assert(
      !sizeof(Merge),
      "lockstep: Shared needs a merge (ls::Concatenate, ls::Multiply, ...), a layer, and 1 "
      "to 16 parts, which give it its inputs");
};
template <class Merge, std::size_t... Numbers, class L, class... Parts>
  requires(sizeof...(Parts) > 0 && sizeof...(Parts) <= max_branches)
struct SharedUses<Merge, std::index_sequence<Numbers...>, L, Parts...>
    : ParallelLayers<false, Merge, SharedUse<Numbers, L, Parts...>...> {
  using Base = ParallelLayers<false, Merge, SharedUse<Numbers, L, Parts...>...>;
  using Tables = SharedTables<0, L, Parts...>;
  using First = std::tuple_element_t<0, std::tuple<Parts...>>;

  static constexpr std::size_t layer_count = Tables::layer_count;
  template <class In>
  static constexpr auto layers = Tables::template layers<In>;
  template <class In>
  static constexpr auto variables = SharedUse<0, L, Parts...>::template variables<In>;
  template <class In>
  static constexpr auto state_variables = SharedUse<0, L, Parts...>::template state_variables<In>;

  template <class In>
  using Output = typename Base::template Rule<In>::Type;

  template <std::size_t Position, class In>
  static consteval bool check() {
    using Input = typename OutputShape<First, In>::Type;
    static_assert(
        (ComputesByItself<L,
                          typename SharedTables<Numbers, L, Parts...>::template Chain<In>::Steps> &&
         ...),
        "lockstep: the layer of Shared must compute something by itself: it is no "
        "Flatten, nor an Activation that the layer of a part does");
    return (check_shared_input<Numbers, typename OutputShape<Parts, In>::Type, Input>() && ...) &&
           check_fit<0, typename OutputShape<L, Input>::Type, typename OutputShape<L, Input>::Type,
                     L, Merge>();
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    run_branches<T>(uses<In>, Base::template calls<In, T>, Base::template merge<In, T>, pass);
  }
  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    visit_branches<T>(uses<In>, Base::template calls<In, T>, first, pass, OutputVisitor<T>(f));
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_branches_backward<T>(uses<In>, Base::template calls<In, T>, Base::template merge<In, T>,
                             pass);
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    backward<In, T>(pass);
  }

 private:
  /// The branches, each with the variables of all.
  template <class In>
  static constexpr auto uses = [] {
    auto all = Base::template branches<In>;
    for (Branch& use : all)
      use.place.position = use.place.first_variable = use.place.first_state_variable = 0;
    return all;
  }();
};

}  // namespace detail

/// L with one set of variables, applied to the output of each part (1 to 16), and the results
/// merged: Parallel<Merge, Sequential<Part, L>...> whose branches are one L, as the towers of a
/// siamese network are. A part takes an input out (In::Get<"left">, Slice), or prepares it with
/// layers; all have outputs of one shape. It works like calling one layer several times in Keras:
/// gradients add up, a BatchNormalization normalises each input by its own batch and moves its
/// averages each time, a Dropout draws for each anew. The variables of L are there once, in files
/// too: "shared/dense/kernel". Bromley et al., "Signature verification using a 'siamese' time delay
/// neural network", NIPS 1993.
/// @code
/// using In = Inputs<NamedInput<"left", 28, 28, 1>, NamedInput<"right", 28, 28, 1>>;
/// using Tower = Sequential<Conv2D<16, 3, ReLU>, Flatten, Dense<32>>;
/// using Net = Sequential<In, Shared<Multiply, Tower, In::Get<"left">, In::Get<"right">>,
///                        Dense<1>>;
/// @endcode
/// Use: `Shared<Concatenate, Dense<8, ReLU>, Slice<0, 10>, Slice<10, 10>>`: Shape<20> -> Shape<16>;
/// kernel (10, 8), bias (8). Keras: none (a layer called twice).
template <class Merge, class L, class... Parts>
  requires each_layer_has_its_angle_brackets<L, Parts...>
struct Shared : detail::SharedUses<Merge, std::index_sequence_for<Parts...>, L, Parts...> {
  static constexpr std::string_view name = "shared";
};

}}  // namespace lockstep
