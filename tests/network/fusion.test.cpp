#include "lockstep/network/layer_at.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/instruction_sets.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

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
