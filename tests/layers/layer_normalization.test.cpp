#include "lockstep/layers/layer_normalization.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "golden/image_layers.hpp"
#include "golden/recurrent.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/golden_struct.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;
using ls::GroupNormalization;
using ls::GroupNormalizationOptions;
using ls::LayerNormalization;
using ls::LayerNormalizationOptions;
using ls::RMSNormalization;
using ls::Shape;

TEST_CASE("GroupNormalization: of a sequence, over all of its positions, as in Keras") {
  using In = ls::Sequence<5, 6>;
  lockstep_test::check_golden_struct<lockstep_test::golden::group_normalization_sequence,
                                     ls::GroupNormalization<2>, In>(3);
  lockstep_test::check_gradients_for_all_batches<ls::GroupNormalization<-1>, ls::Sequence<3, 2>>();
}

TEST_CASE("GroupNormalization: of a sequence of images") {
  using L = ls::GroupNormalization<2>;
  static_assert(std::is_same_v<L::Output<ls::Sequence<3, 2, 2, 4>>, ls::Sequence<3, 2, 2, 4>>);
  lockstep_test::check_gradients<L, ls::Sequence<3, 2, 2, 4>>(5);
}

TEST_CASE("GroupNormalization: the mask travels on") {
  static_assert(ls::detail::keeps_mask<ls::GroupNormalization<2>>);
}

TEST_CASE("LayerNormalization: variables") {
  const auto& all = LayerNormalization<>::variables<Shape<4, 5, 3>>;
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "gamma");
  CHECK(all[1].name == "beta");
  CHECK(all[1].size() == 3);
  CHECK((all[0].initializer == ls::ones));
  using Other = LayerNormalization<LayerNormalizationOptions{.beta_initializer = ls::ones}>;
  CHECK((Other::variables<Shape<3>>[1].initializer == ls::ones));
}

TEST_CASE("LayerNormalization: gradients") {
  using WithoutBeta = LayerNormalization<LayerNormalizationOptions{.center = false}>;
  using WithoutGamma = LayerNormalization<LayerNormalizationOptions{.scale = false}>;
  using Bare = LayerNormalization<LayerNormalizationOptions{.center = false, .scale = false}>;
  for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<LayerNormalization<>, Shape<3, 4, 5>>();
    lockstep_test::check_gradients_for_all_batches<LayerNormalization<>, Shape<7>>();
    lockstep_test::check_gradients<WithoutBeta, Shape<2, 3, 2>>(5);
    lockstep_test::check_gradients<WithoutGamma, Shape<4, 2>>(17);
    lockstep_test::check_gradients<Bare, Shape<6>>(80);
    lockstep_test::check_gradients<LayerNormalization<>, Shape<2, 1>>(3);
  });
}

TEST_CASE(
    "LayerNormalization: a mean far from zero costs no accuracy; padding of any size gives finite "
    "values") {
  for_each_instruction_set([] {
    using In = Shape<2, 64>;
    LayerRig<LayerNormalization<>, In, float> near(3), far(3);
    for (float& x : near.x) x = std::round(x * 256) / 256;
    for (std::size_t i = 0; i < near.x.size(); ++i)
      far.x[i] = near.x[i] + (i % 16 < 3 ? 4096 : 1e18F);
    near.forward();
    far.forward();
    for (std::size_t i = 0; i < near.y.size(); ++i) {
      if (i % near.stride < 3) CHECK(std::abs(near.y[i] - far.y[i]) < 2e-3F);
      CHECK(std::isfinite(far.y[i]));
    }
  });
}

TEST_CASE("RMSNormalization: variables") {
  const auto& all = RMSNormalization<>::variables<Shape<4, 5, 3>>;
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "scale");
  CHECK(all[0].size() == 3);
  CHECK((all[0].initializer == ls::ones));
}

TEST_CASE("RMSNormalization: Keras's values and gradients") {
  namespace rms = lockstep_test::golden::rms_normalization;
  lockstep_test::check_golden<RMSNormalization<>, Shape<3, 4>>(
      {rms::x, rms::y, rms::dy, rms::dx, {{rms::scale, rms::scale_gradient}}});
}

TEST_CASE("RMSNormalization: gradients") {
  lockstep_test::for_each_instruction_set([] {
    using Flat = RMSNormalization<ls::RMSNormalizationOptions{.epsilon = 0.1}>;
    lockstep_test::check_gradients_for_all_batches<RMSNormalization<>, Shape<3, 4, 5>>();
    lockstep_test::check_gradients<Flat, Shape<7>>(80);
  });
}

TEST_CASE("GroupNormalization: variables") {
  const auto& all = GroupNormalization<>::variables<Shape<4, 5, 64>>;
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "gamma");
  CHECK(all[1].name == "beta");
  CHECK(all[1].size() == 64);
  CHECK(GroupNormalization<>::scratch<Shape<4, 5, 64>>(16) == 2 * 32 * 16);
  CHECK(GroupNormalization<-1>::scratch<Shape<4, 5, 64>>(16) == 2 * 64 * 16);
  static_assert(ls::InputOfChannelGroups<0, Shape<4, 5, 64>, 32>);
  static_assert(!ls::InputOfChannelGroups<0, Shape<4, 5, 48>, 32>);
}

TEST_CASE("GroupNormalization: Keras's values and gradients") {
  namespace group = lockstep_test::golden::group_normalization;
  check_golden<GroupNormalization<2>, Shape<3, 2, 6>>(
      {group::x,
       group::y,
       group::dy,
       group::dx,
       {{group::gamma, group::gamma_gradient}, {group::beta, group::beta_gradient}}});
  namespace instance = lockstep_test::golden::instance_normalization;
  check_golden<GroupNormalization<-1>, Shape<4, 3>>(
      {instance::x,
       instance::y,
       instance::dy,
       instance::dx,
       {{instance::gamma, instance::gamma_gradient}, {instance::beta, instance::beta_gradient}}});
}

TEST_CASE("GroupNormalization: gradients") {
  using Bare = GroupNormalization<2, GroupNormalizationOptions{.center = false, .scale = false}>;
  using WithoutGamma = GroupNormalization<1, GroupNormalizationOptions{.scale = false}>;
  for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<GroupNormalization<2>, Shape<3, 4, 6>>();
    lockstep_test::check_gradients<Bare, Shape<6>>(80);
    lockstep_test::check_gradients<WithoutGamma, Shape<2, 70>>(5);
  });
}

TEST_CASE(
    "GroupNormalization: a mean far from zero costs no accuracy; padding of any size gives finite "
    "values") {
  for_each_instruction_set([] {
    using In = Shape<16, 16, 4>;
    LayerRig<GroupNormalization<2>, In, float> near(3), far(3);
    for (float& x : near.x) x = std::round(x * 256) / 256;
    for (std::size_t i = 0; i < near.x.size(); ++i)
      far.x[i] = near.x[i] + (i % 16 < 3 ? 4096 : 1e30F * near.x[i]);
    near.forward();
    far.forward();
    float worst = 0;
    bool finite = true;
    for (std::size_t i = 0; i < near.y.size(); ++i) {
      if (i % near.stride < 3) worst = std::max(worst, std::abs(near.y[i] - far.y[i]));
      finite = finite && std::isfinite(far.y[i]);
    }
    CHECK(worst < 2e-3F);
    CHECK(finite);
  });
}
