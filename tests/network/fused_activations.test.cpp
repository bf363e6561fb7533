// An Activation is done by the layer before it, where that can.
#include <doctest/doctest.h>

#include <string_view>
#include <type_traits>

#include "lockstep/layers/activation.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/network/sequential.hpp"
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
using Net = ls::Sequential<ls::Input<4, 5, 2>, ls::Conv2D<3, 2>, A<Function>, ls::BatchNormalization<>, A<Function>,
                           ls::Flatten, ls::Dense<5>, A<Function>, ls::Dense<3>>;

template <class Function>
void check_equal() {
  using Fused = Net<ls::Activation, Function>;
  NetRunner<Fused> fused;
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
template <std::size_t Position, class L, class Work = L>
using At = ls::detail::LayerAt<Position, L, ls::Shape<4>, Work>;
using ReLU = ls::Activation<ls::ReLU>;

// Two in a row: the first is taken over, the second is not.
static_assert(
    std::is_same_v<ListOf<ls::Dense<4>, ReLU, ReLU>,
                   ls::detail::LayerList<At<0, ls::Dense<4>, ls::Dense<4, ls::ReLU>>, At<1, ReLU, void>, At<2, ReLU>>>);
// A layer that has an activation keeps it.
static_assert(std::is_same_v<ListOf<ls::Dense<4, ls::Tanh>, ReLU>,
                             ls::detail::LayerList<At<0, ls::Dense<4, ls::Tanh>>, At<1, ReLU>>>);
// A layer that inherits from another one may do something else.
struct Derived : ls::Dense<4> {};
static_assert(std::is_same_v<ListOf<Derived, ReLU>, ls::detail::LayerList<At<0, Derived>, At<1, ReLU>>>);
static_assert(std::is_same_v<ListOf<ReLU, ls::Dense<4>>, ls::detail::LayerList<At<0, ReLU>, At<1, ls::Dense<4>>>>);

}  // namespace

TEST_CASE("fused activations: loss and gradients are those of two layers") {
  check_equal<ls::ReLU>();
  check_equal<ls::Tanh>();
  check_equal<ls::LeakyReLU<>>();
}

TEST_CASE("fused activations: names and summary show both layers") {
  using Fused = Net<ls::Activation, ls::ReLU>;
  using Unfused = Net<Apart, ls::ReLU>;
  CHECK(Fused::layer_names<Fused::InputShape>() == Unfused::layer_names<Unfused::InputShape>());
  CHECK(Fused::variable_names<Fused::InputShape>() == Unfused::variable_names<Unfused::InputShape>());
  CHECK(Fused::summary().find("activation_2 (Activation)") != std::string::npos);
}
