#include "lockstep/network/layer_chain.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <type_traits>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using In = ls::Shape<4>;

template <std::size_t Position, class L, class I, class Below = void>
using At = ls::detail::LayerAt<Position, L, I, L, Below>;

// The chain hands shapes on and numbers the layers; those that compute something know the one
// below.
using Chain = ls::detail::ChainOf<In, UserDense<6>, UserReshape<2, 3>, UserReLU>;
using First = At<0, UserDense<6>, In>;
using Second = At<1, UserReshape<2, 3>, ls::Shape<6>, UserDense<6>>;
using Third = At<2, UserReLU, ls::Shape<2, 3>, UserDense<6>>;
static_assert(std::is_same_v<Chain::Output, ls::Shape<2, 3>>);
static_assert(std::is_same_v<Chain::List, ls::detail::LayerList<First, Second, Third>>);
static_assert(std::is_same_v<Chain::Steps, ls::detail::LayerList<First, Third>>);

constexpr auto infos = ls::detail::layer_infos(Chain::List{});
static_assert(ls::detail::variable_count<&ls::LayerInfo::variables>(infos) == 2);
static_assert(ls::detail::concatenate<&ls::LayerInfo::variables, 2>(infos)[1].name == "bias");

}  // namespace

TEST_CASE("layer places: sums over the layers before, aliases left out") {
  using Net = ls::detail::ChainOf<In, UserReshape<2, 2>, UserReshape<4>, UserDense<6>,
                                  UserReshape<2, 3>, UserReLU, UserReshape<6>, UserDense<3>>;
  constexpr auto places = ls::detail::layer_places<Net::Steps::size>(Net::List{});
  REQUIRE(places.size() == 3);
  CHECK(places[0].position == 2);
  CHECK(places[1].position == 4);
  CHECK(places[2].position == 6);
  CHECK(places[2].input == ls::detail::TensorSize{.features = 6});
  CHECK(places[2].output == ls::detail::TensorSize{.features = 3});
  CHECK(places[1].variables == 0);
  CHECK(places[2].first_variable == 2);
  CHECK(ls::detail::container_scratch(places, 3) == 12 * 16);
  CHECK(ls::detail::container_temporary(places, 3) == 2 * 6 * 16);
}

TEST_CASE(
    "backward roles: nothing below the first trained layer, unless the input's gradient is "
    "wanted") {
  using Steps = ls::detail::ChainOf<In, UserReLU, UserReLU, UserDense<3>, UserReLU>::Steps;
  constexpr auto weights = ls::detail::backward_roles<float, false>(Steps{});
  constexpr auto all = ls::detail::backward_roles<float, true>(Steps{});
  const std::array called{false, false, true, true};
  const std::array wanted{false, false, false, true};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(weights[i].called == called[i]);
    CHECK(weights[i].input_gradient == wanted[i]);
    CHECK((all[i].called && all[i].input_gradient));
  }
  constexpr auto calls = ls::detail::backward_calls<float, true>(Steps{});
  CHECK(calls[0].dx == ls::detail::GradientPlace::given);
  CHECK(calls[1].dx == ls::detail::GradientPlace::buffer);
  constexpr bool called_below = ls::detail::backward_calls<float, false>(Steps{})[1].run != nullptr;
  CHECK_FALSE(called_below);
}
