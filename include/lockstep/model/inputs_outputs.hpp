// Inputs and outputs with names: Inputs, Outputs, and losses and metrics of an output by its name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/losses.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/metrics/wrappers.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/sequential.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Text as a template argument: `NamedInput<"image", 28, 28>`.
template <std::size_t Size>
struct Name {
  char text[Size]{};
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Name(const char (&from)[Size]) { std::copy_n(from, Size, text); }
  [[nodiscard]] constexpr std::string_view view() const { return {text, Size - 1}; }
};

/// An input of Inputs: its name, and the shape of one sample.
/// Use: `Inputs<NamedInput<"image", 8, 8, 1>, NamedInput<"age", 1>>`. Keras: `Input(shape, name)`.
template <Name Of, std::size_t... Extents>
struct NamedInput {
  static constexpr std::string_view name = Of.view();
  using Sample = Shape<Extents...>;
  using Content = Sample;  // see signature
};

/// A branch of Outputs: layers, whose output is flat, and its name, which is in those of their
/// variables: "outputs/class/dense/kernel".
/// Use: `Outputs<NamedOutput<"class", Dense<2>>, NamedOutput<"price", Dense<1>>>`. Keras: an
/// output's name.
template <Name Of, class... Layers>
struct NamedOutput : Sequential<Layers...> {
  static constexpr std::string_view name = Of.view();
  using Content = Sequential<Layers...>;  // see signature
};

namespace detail {

/// Where the part of that name is among parts side by side; an empty range if there is none.
template <std::size_t Count>
constexpr FeatureRange named_range(std::string_view name,
                                   const std::array<std::string_view, Count>& names,
                                   const std::array<std::size_t, Count>& sizes) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < Count; begin += sizes[i++])
    if (names[i] == name) return {begin, begin + sizes[i]};
  return {};
}
template <class... Named>
constexpr bool names_differ() {
  const std::array<std::string_view, sizeof...(Named)> names{Named::name...};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      return false;
  return true;
}

/// The index of the one of that name; 0 if there is none.
template <class... Named>
constexpr std::size_t index_of_name(std::string_view name) {
  std::size_t found = 0, i = 0;
  ((found = Named::name == name ? i : found, ++i), ...);
  return found;
}

/// A part of a flat sample in its shape.
template <std::size_t Begin, class Sample>
struct PartOfInput;
template <std::size_t Begin, std::size_t Size>
struct PartOfInput<Begin, Shape<Size>> {
  using Type = Slice<Begin, Size>;
};
template <std::size_t Begin, std::size_t... Extents>
struct PartOfInput<Begin, Shape<Extents...>> {
  using Type = Sequential<Slice<Begin, Shape<Extents...>::size>, Reshape<Extents...>>;
};

/// Whether an input (an output) has that name. The compiler prints the existing names beside it.
template <Name Of, class... Named>
concept HasName = ((Named::name == Of.view()) || ...);

template <class List>
struct LastLayer;
template <class... At>
struct LastLayer<LayerList<At...>> {
  using Type = typename decltype((std::type_identity<At>{}, ...))::type;
};

/// The last layer of Net at its place.
template <class Net>
struct EndOf {
  using Last = void;
};
template <class... Layers>
struct EndOf<Sequential<Layers...>> {
  using Last = typename LastLayer<
      typename ChainOf<typename Sequential<Layers...>::InputShape, Layers...>::List>::Type;
};

/// "class_accuracy"
template <Name Of, class M>
inline constexpr auto metric_name = [] {
  constexpr std::string_view name = M{}.name;
  std::array<char, Of.view().size() + 1 + name.size()> text{};
  const auto end = std::copy(Of.view().begin(), Of.view().end(), text.begin());
  *end = '_';
  std::copy(name.begin(), name.end(), end + 1);
  return text;
}();

}  // namespace detail

/// The first layer of a model with several inputs, which are side by side in a sample, flat, in
/// this order. `Get<"image">` is the layer that takes one out, in its shape.
/// @code
/// using In = Inputs<NamedInput<"image", 28, 28, 1>, NamedInput<"age", 1>>;
/// using Net = Sequential<In, Parallel<Concatenate, Sequential<In::Get<"image">, Conv2D<8, 3>,
///                                                             Flatten>, In::Get<"age">>,
///                        Dense<2>>;
/// @endcode
/// Data: zip(inputs(images, ages), labels), in lockstep/data/joined_stages.hpp.
/// Use: `Sequential<Inputs<NamedInput<"a", 2>, NamedInput<"b", 3>>, Dense<2>>`: Shape<5> ->
/// Shape<2>; kernel (5, 2), bias (2). Keras: a list of `Input`s.
template <class... Named>
struct Inputs : Input<(std::size_t{0} + ... + Named::Sample::size)> {
  static_assert(detail::names_differ<Named...>(), "lockstep: two inputs of Inputs have one name");

  /// The features of that input in a sample.
  template <Name Of>
  static constexpr FeatureRange range = [] {
    static_assert(detail::HasName<Of, Named...>, "lockstep: Inputs has no input of this name");
    return detail::named_range<sizeof...(Named)>(Of.view(), {Named::name...},
                                                 {Named::Sample::size...});
  }();
  template <Name Of>
  using Get = typename detail::PartOfInput<
      range<Of>.begin, typename std::tuple_element_t<detail::index_of_name<Named...>(Of.view()),
                                                     std::tuple<Named...>>::Sample>::Type;
};

/// The last layer of a model with several outputs, side by side in this order. Losses and metrics
/// of one by its name: output_loss<Net, "class">, output_metric<Net, "class">.
/// Use: `Sequential<Input<4>, Outputs<NamedOutput<"class", Dense<2>>, NamedOutput<"price",
/// Dense<1>>>>`: Shape<4> -> Shape<3>; kernel (4, 2), bias (2), kernel (4, 1), bias (1). Keras: a
/// list of outputs.
template <class... Named>
struct Outputs : Parallel<Concatenate, Named...> {
  static constexpr std::string_view name = "outputs";
  static_assert(detail::names_differ<Named...>(), "lockstep: two outputs of Outputs have one name");

  template <class In, Name Of>
  static constexpr FeatureRange range = [] {
    static_assert(detail::HasName<Of, Named...>, "lockstep: Outputs has no output of this name");
    return detail::named_range<sizeof...(Named)>(Of.view(), {Named::name...},
                                                 {detail::OutputShape<Named, In>::Type::size...});
  }();
};

/// The features of an output of Net, whose last layer is an Outputs.
template <class Net, Name Of>
inline constexpr FeatureRange output_range = [] {
  using Last = typename detail::EndOf<Net>::Last;
  static_assert(
      requires { Last::Layer::template range<typename Last::Input, Of>; },
      "lockstep: outputs have names where the last layer of the model is an "
      "ls::Outputs<ls::NamedOutput<...>...>");
  return Last::Layer::template range<typename Last::Input, Of>;
}();

/// The loss of an output: a part of Losses.
/// As in output_loss<Net, "price">(MeanSquaredError{}, 0.5); in Keras, loss={"price": ...},
/// loss_weights={"price": 0.5}.
template <class Net, Name Of, class L>
[[nodiscard]] auto output_loss(L loss, double weight = 1) {
  constexpr FeatureRange at = output_range<Net, Of>;
  return output_loss<at.begin, at.end>(std::move(loss), weight);
}

/// A metric of an output, with the targets that its loss takes: "class_accuracy" in the logs,
/// unless it is given another name.
/// As in output_metric<Net, "class">(losses, Accuracy{}); in Keras, metrics={"class":
/// ["accuracy"]}.
template <class Net, Name Of, class... Parts, class M>
[[nodiscard]] OutputMetric<M> output_metric(const Losses<Parts...>&, M metric,
                                            std::string_view name = {}) {
  constexpr FeatureRange at = output_range<Net, Of>;
  constexpr FeatureRange targets = [] {
    FeatureRange found;
    std::size_t next = 0;
    ((found = Parts::begin == output_range<Net, Of>.begin && Parts::end == output_range<Net, Of>.end
                  ? FeatureRange{next, next + Parts::target_size}
                  : found,
      next += Parts::target_size),
     ...);
    return found;
  }();
  static_assert(targets.end > 0, "lockstep: output_metric: the losses have none of this output");
  constexpr auto& default_name = detail::metric_name<Of, M>;
  if (name.empty()) name = {default_name.data(), default_name.size()};
  return {std::move(metric), {.outputs = at, .targets = targets, .name = name}};
}

}}  // namespace lockstep
