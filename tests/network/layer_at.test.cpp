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
