#include "lockstep/layers/layer_normalization.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;
using ls::LayerNormalization;
using ls::LayerNormalizationOptions;
using ls::Shape;

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
