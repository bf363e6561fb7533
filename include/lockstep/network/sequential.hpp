// Sequential: layers one after the other, itself a layer.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/layer_names.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The shape that a model starts from; only the first layer of a model may be an Input.
template <class... Layers>
struct ModelInput;
template <>
struct ModelInput<> {
  using Sample = void;
};
template <class First, class... Rest>
struct ModelInput<First, Rest...> {
  using Sample = void;
};
template <class First, class... Rest>
  requires is_input<First>
struct ModelInput<First, Rest...> {
  using Sample = typename First::Sample;
};

/// See LayersInARow.
template <class... Layers>
struct ChainTables {
  static constexpr std::size_t layer_count = (std::size_t{0} + ... + layer_count_of<Layers>());
  template <class In>
  using Chain = ChainOf<In, Layers...>;

  template <class In>
  static constexpr std::array<LayerInfo, sizeof...(Layers)> layers =
      layer_infos(typename Chain<In>::List{});
  template <class In>
  static constexpr Flop flop = flop_in_a_row(typename Chain<In>::List{});
  template <class In>
  static constexpr auto places = layer_places<Chain<In>::Steps::size>(typename Chain<In>::List{});
  template <class In, class T>
  static constexpr auto forward_calls = detail::forward_calls<T>(typename Chain<In>::Steps{});
  template <class In, class T, bool InputGradient>
  static constexpr auto backward_calls =
      detail::backward_calls<T, InputGradient>(typename Chain<In>::Steps{});
};

}  // namespace detail

/// Layers one after the other. As the outermost model its first layer is an Input; without one it
/// is a part of another Sequential and takes its input shape from there.
///
/// @code
/// using Cnn = Sequential<Input<28, 28>, Reshape<28, 28, 1>, Conv2D<32, 3, ReLU>, Flatten,
///                        Dense<128, ReLU>, Dense<10>>;
/// static_assert(Cnn::parameter_count == 2'770'634);
/// @endcode
/// Use: `Sequential<Input<20>, Dense<8, ReLU>, Dense<3>>`: Shape<20> -> Shape<3>; kernel (20, 8),
/// bias (8), kernel (8, 3), bias (3).
template <class... Layers>
  requires each_layer_has_its_angle_brackets<Layers...>
struct Sequential : detail::LayersInARow<detail::ChainTables<Layers...>> {
  static_assert(sizeof...(Layers) > 0, "lockstep: Sequential needs at least one layer");
  static constexpr std::string_view name = "sequential";
  static constexpr std::string_view class_name = "Sequential";
  using AnnouncesGradients = Sequential;
  using JoinsSums = Sequential;

  /// Shape of a sample, from Input; void without one.
  using InputShape = typename detail::ModelInput<Layers...>::Sample;

  template <class In>
  using Chain = detail::ChainOf<In, Layers...>;
  template <class In>
  using Output = typename Chain<In>::Output;

  using Base = detail::LayersInARow<detail::ChainTables<Layers...>>;
  /// Number of trained parameters; 0 without Input.
  static constexpr std::size_t parameter_count = [] {
    std::size_t count = 0;
    if constexpr (!std::is_void_v<InputShape>)
      for (const Variable& variable : Base::template variables<InputShape>)
        count += variable.size();
    return count;
  }();

  /// "dense_1", or "block/dense_1" in a nested Sequential "block", for each position of the
  /// flattened model.
  template <class In>
  static std::vector<std::string> layer_names() {
    return detail::layer_names(Base::template layers<In>);
  }

  /// "dense_1/kernel", for each of variables<In>: Keras's numbering of repeated layer names.
  template <class In>
  static std::vector<std::string> variable_names() {
    return detail::variable_names(Base::template layers<In>, true);
  }
  template <class In>
  static std::vector<std::string> state_variable_names() {
    return detail::variable_names(Base::template layers<In>, false);
  }

  /// Every variable, layer by layer, in each layer the trained ones first: Keras's order.
  template <class In>
  static std::vector<VariablePlace> variable_order() {
    return detail::variable_order(Base::template layers<In>);
  }

  /// Throws ConfigurationError, naming the layers, unless files of weights can hold their names:
  /// each layer needs its own name, and so does each of its variables.
  template <class In>
  static void check_names() {
    detail::check_names(Base::template layers<In>);
  }

  /// Keras's table of layers, output shapes and parameter counts.
  static std::string summary()
    requires(!std::is_void_v<InputShape>)
  {
    return detail::summary_of(name, Base::template layers<InputShape>);
  }
};

namespace detail {

template <class... Layers>
inline constexpr bool ends_linearly<Sequential<Layers...>> = [] {
  bool linear = false;
  ((linear =
        Layers::name == "flatten" || Layers::name == "reshape" ? linear : ends_linearly<Layers>),
   ...);
  return linear;
}();

}  // namespace detail
}}  // namespace lockstep
