#include "lockstep/network/layer_at.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "support/instruction_sets.hpp"
#include "support/model_testing.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using In = ls::Shape<4>;

// Absent hooks have defaults.
using Plain = ls::detail::LayerAt<0, UserReLU, In>;
static_assert(!Plain::aliases && !Plain::is_container && std::is_same_v<Plain::Output, In>);
static_assert(Plain::info().variables.empty() && Plain::info().state_variables.empty());
static_assert(Plain::info().layer_count == 1 && Plain::info().layers.empty() &&
              !Plain::info().is_input);
static_assert(Plain::info().name == "user_re_lu" && Plain::info().class_name == "UserReLU");
static_assert(Plain::info().output_extents.size() == 1 && Plain::info().output_extents[0] == 4);
static_assert(Plain::place().scratch == nullptr && Plain::place().scratch_size(16) == 0);
static_assert(Plain::forward_call<float>().each_output == nullptr);

/// How At goes backward as the first layer of a model, whose dx is not wanted.
template <class At>
constexpr auto first =
    At::template backward_call<float, ls::detail::BackwardRole{.called = true}>();
template <class At>
constexpr auto inner =
    At::template backward_call<float,
                               ls::detail::BackwardRole{.called = true, .input_gradient = true}>();
static_assert(Plain::backward_call<float, ls::detail::BackwardRole{}>().run == nullptr);
static_assert(first<Plain>.dx == ls::detail::GradientPlace::buffer &&
              !first<Plain>.announces_gradients);

// What there is, is used.
struct Everything : UserReLU {
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;
  static constexpr bool aliases_input = false;
  static constexpr bool takes_sequences = true;
  static constexpr std::size_t layer_count = 3;
  using AnnouncesGradients = Everything;
  template <class I>
  static constexpr std::array variables{ls::Variable{"w", {I::size}, nullptr}};
  template <class I>
  static constexpr std::array state_variables{ls::Variable{"s", {2}, nullptr},
                                              ls::Variable{"t", {3}, nullptr}};
  template <class I>
  static constexpr std::array layers{ls::LayerInfo{.name = "a"},
                                     ls::LayerInfo{.name = "b", .layer_count = 2}};
  template <class I>
  static constexpr std::size_t scratch(std::size_t samples) {
    return samples + 1;
  }
  template <class I>
  static constexpr std::size_t temporary(std::size_t samples) {
    return samples + 17;
  }
  template <class I, class T>
  static void backward_weights(const ls::BackwardPass<T>&) {}
  template <class I, class T, class F>
  static void each_output(std::size_t, const ls::ForwardPass<T>&, F&) {}
  template <std::size_t Position, class I>
  static consteval bool check() {
    return Position == 5 && I::size == 4;
  }
};
using All = ls::detail::LayerAt<5, Everything, In>;
static_assert(All::info().variables.size() == 1 && All::info().variables[0].size() == 4);
static_assert(All::info().state_variables.size() == 2 && All::info().layer_count == 3);
static_assert(All::is_container && All::info().layers.size() == 2 &&
              All::info().layers[1].name == "b");
static_assert(!All::aliases && All::place().is_container);
static_assert(All::place().scratch_size(16) == 32);  // rounded up, so that what follows is aligned
static_assert(All::place().temporary_size(16) == 48);

static_assert(ls::detail::LayerAt<0, UserReshape<2, 2>, In>::aliases);

}  // namespace

TEST_CASE("LayerAt: where the gradients of a layer's input go") {
  using ls::detail::GradientPlace;
  CHECK(first<All>.dx == GradientPlace::nowhere);  // backward_weights
  CHECK(first<All>.announces_gradients);
  CHECK(inner<All>.dx == GradientPlace::of_dy);
  CHECK(inner<Plain>.dx == GradientPlace::buffer);
  const bool same = first<All>.run == inner<All>.run;
  CHECK_FALSE(same);
  // Another layer of the same kind at another position shares what is compiled.
  using Elsewhere = ls::detail::LayerAt<7, UserReLU, In, UserReLU, Everything>;
  const bool shared = inner<Elsewhere>.run == inner<Plain>.run &&
                      Elsewhere::forward_call<float>().run == Plain::forward_call<float>().run;
  CHECK(shared);
}

namespace {

/// The same as Activation, but no layer takes it over.
template <class Function>
struct Apart {
  static constexpr std::string_view name = ls::Activation<Function>::name;
  static constexpr bool keeps_padding = true;
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return ls::Activation<Function>::template scratch<In>(stride);
  }
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    ls::Activation<Function>::template forward<In, T>(pass);
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    ls::Activation<Function>::template backward<In, T>(pass);
  }
};

template <template <class> class A, class Function>
using Net =
    ls::Sequential<ls::Input<4, 5, 2>, ls::Conv2D<3, 2>, A<Function>, ls::BatchNormalization<>,
                   A<Function>, ls::Flatten, ls::Dense<5>, A<Function>, ls::Dense<3>>;

template <class Function>
void check_equal() {
  NetRunner<Net<ls::Activation, Function>> fused;
  NetRunner<Net<Apart, Function>> apart;
  for (const std::size_t samples : {1u, 5u, 16u, 37u}) {
    CAPTURE(samples);
    CHECK(fused.run(samples) == doctest::Approx(apart.run(samples)).epsilon(1e-12));
    const auto a = fused.gradients(), b = apart.gradients();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-9));
  }
}

template <class... Layers>
using ListOf = typename ls::Sequential<Layers...>::template Chain<ls::Shape<4>>::List;
template <std::size_t Position, class L, class Work = L, class Below = void>
using At = ls::detail::LayerAt<Position, L, ls::Shape<4>, Work, Below>;
using ReLU = ls::Activation<ls::ReLU>;

using Fused = ls::Dense<4, ls::ReLU>;
// Two in a row: the first is taken over, the second is not.
static_assert(
    std::is_same_v<ListOf<ls::Dense<4>, ReLU, ReLU>,
                   ls::detail::LayerList<At<0, ls::Dense<4>, Fused>, At<1, ReLU, void, Fused>,
                                         At<2, ReLU, ReLU, Fused>>>);
// A layer that has an activation keeps it.
using WithTanh = ls::Dense<4, ls::Tanh>;
static_assert(std::is_same_v<ListOf<WithTanh, ReLU>,
                             ls::detail::LayerList<At<0, WithTanh>, At<1, ReLU, ReLU, WithTanh>>>);
// A layer that inherits from another one may do something else.
struct Derived : ls::Dense<4> {};
static_assert(std::is_same_v<ListOf<Derived, ReLU>,
                             ls::detail::LayerList<At<0, Derived>, At<1, ReLU, ReLU, Derived>>>);
static_assert(
    std::is_same_v<ListOf<ReLU, ls::Dense<4>>,
                   ls::detail::LayerList<At<0, ReLU>, At<1, ls::Dense<4>, ls::Dense<4>, ReLU>>>);

}  // namespace

TEST_CASE("fused activations: loss and gradients are those of two layers") {
  check_equal<ls::ReLU>();
  check_equal<ls::Tanh>();
  check_equal<ls::LeakyReLU<>>();
  check_equal<ls::GELU>();
}

TEST_CASE("fused activations: names and summary show both layers") {
  using FusedNet = Net<ls::Activation, ls::ReLU>;
  using ApartNet = Net<Apart, ls::ReLU>;
  CHECK(FusedNet::layer_names<FusedNet::InputShape>() ==
        ApartNet::layer_names<ApartNet::InputShape>());
  CHECK(FusedNet::variable_names<FusedNet::InputShape>() ==
        ApartNet::variable_names<ApartNet::InputShape>());
  CHECK(FusedNet::summary().find("activation_2 (Activation)") != std::string::npos);
}

namespace {

/// Inherits all that L has, and so goes through nothing, nor lets the next layer through.
template <class L>
struct Inherited : L {};

template <class L>
using Same = L;

template <template <class> class A, std::size_t Units, class Function>
using BackwardNet =
    ls::Sequential<ls::Input<5, 4, 2>, A<ls::Conv2D<6, 3, Function>>, ls::Flatten,
                   A<ls::Dense<Units, Function>>, A<ls::BatchNormalization<Function>>,
                   A<ls::Dense<7, Function>>, A<ls::Dense<3>>>;

/// For each layer that computes something: whether it goes backward through the activation below.
template <class N>
constexpr auto goes_through = [] {
  constexpr auto roles = ls::detail::backward_roles<float, false>(
      typename N::template Chain<typename N::InputShape>::Steps{});
  std::array<bool, roles.size()> through{};
  for (std::size_t i = 0; i < through.size(); ++i) through[i] = roles[i].goes_through;
  return through;
}();

template <std::size_t Units, class Function, template <class> class A = Same>
constexpr std::array through = goes_through<BackwardNet<A, Units, Function>>;

static_assert(through<128, ls::ReLU> == std::array{false, true, false, true, true});
// More than one block of summands.
static_assert(through<129, ls::ReLU> == std::array{false, false, false, true, true});
static_assert(through<9, ls::Tanh> == std::array{false, false, false, false, false});
static_assert(through<9, ls::Linear> == std::array{false, false, false, false, false});
static_assert(through<9, ls::ReLU, Inherited> == std::array{false, false, false, false, false});

template <std::size_t Units, class T, class Function>
void check_same_bits() {
  NetRunner<BackwardNet<Same, Units, Function>, T> fused;
  NetRunner<BackwardNet<Inherited, Units, Function>, T> apart;
  for (const std::size_t samples : {1u, 5u, 16u, 37u, 64u}) {
    CAPTURE(samples);
    CHECK(fused.run(samples) == apart.run(samples));
    CHECK(fused.gradients() == apart.gradients());
    CHECK(fused.input_gradient() == apart.input_gradient());
  }
}

}  // namespace

TEST_CASE("backward through activations: the gradients have the same bits") {
  for_each_instruction_set([] {
    check_same_bits<128, float, ls::ReLU>();
    check_same_bits<9, float, ls::ReLU>();
    check_same_bits<130, float, ls::ReLU>();
    check_same_bits<9, double, ls::ReLU>();
    check_same_bits<9, float, ls::Tanh>();
  });
}
