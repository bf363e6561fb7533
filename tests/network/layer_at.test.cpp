#include "lockstep/network/layer_at.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using In = ls::Shape<4>;

// Absent hooks have defaults.
using Plain = ls::detail::LayerAt<0, UserReLU, In>;
static_assert(Plain::variables.empty() && Plain::state_variables.empty() && Plain::layer_count == 1);
static_assert(!Plain::aliases && !Plain::keeps_padding && Plain::scratch(16) == 0);
static_assert(!Plain::can_skip_input_gradient<float> && !Plain::can_skip_input_gradient<double>);
static_assert(std::is_same_v<Plain::Output, In>);

// What there is, is used.
struct Everything : UserReLU {
  static constexpr bool keeps_padding = true;
  static constexpr bool aliases_input = false;
  static constexpr std::size_t layer_count = 3;
  template <class I>
  static constexpr std::array variables{ls::Variable{"w", {I::size}, nullptr}};
  template <class I>
  static constexpr std::array state_variables{ls::Variable{"s", {2}, nullptr}, ls::Variable{"t", {3}, nullptr}};
  template <class I>
  static constexpr std::size_t scratch(std::size_t stride) {
    return stride + 1;
  }
  template <class I, class T>
  static void backward_weights(const ls::BackwardPass<T>&);
  template <std::size_t Position, class I>
  static consteval bool check() {
    return Position == 5 && I::size == 4;
  }
};
using All = ls::detail::LayerAt<5, Everything, In>;
static_assert(All::variables.size() == 1 && All::variables[0].size() == 4 && All::state_variables.size() == 2);
static_assert(All::keeps_padding && !All::aliases && All::layer_count == 3);
static_assert(All::scratch(16) == 32);  // rounded up, so that what follows is aligned
static_assert(All::can_skip_input_gradient<float>);

static_assert(ls::detail::LayerAt<0, UserReshape<2, 2>, In>::aliases);

// The chain hands shapes on and numbers the layers.
using Chain = ls::detail::Chain<0, In, ls::detail::LayerList<>, UserDense<6>, UserReshape<2, 3>, UserReLU>;
static_assert(std::is_same_v<Chain::Output, ls::Shape<2, 3>>);
static_assert(std::is_same_v<Chain::List, ls::detail::LayerList<ls::detail::LayerAt<0, UserDense<6>, In>,
                                                                ls::detail::LayerAt<1, UserReshape<2, 3>, ls::Shape<6>>,
                                                                ls::detail::LayerAt<2, UserReLU, ls::Shape<2, 3>>>>);

}  // namespace

TEST_CASE("LayerAt knows a layer's hooks and their defaults") {}  // at compile time
