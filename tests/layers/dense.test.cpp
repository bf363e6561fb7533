#include "lockstep/layers/dense.hpp"

#include <doctest/doctest.h>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;

TEST_CASE("Dense: shapes and variables") {
  using L = ls::Dense<10, ls::ReLU>;
  static_assert(std::is_same_v<L::Output<ls::Shape<128>>, ls::Shape<10>>);
  const auto& variables = L::variables<ls::Shape<128>>;
  REQUIRE(variables.size() == 2);
  CHECK(variables[0].name == "kernel");
  CHECK(variables[0].rank == 2);
  CHECK(variables[0].extents[0] == 128);
  CHECK(variables[0].extents[1] == 10);
  CHECK(variables[0].fans.in == 128);
  CHECK(variables[0].fans.out == 10);
  CHECK((variables[0].initializer == ls::glorot_uniform));
  CHECK(variables[1].name == "bias");
  CHECK(variables[1].size() == 10);
  CHECK((variables[1].initializer == ls::zeros));
}

TEST_CASE("Dense: initialisers") {
  using L = ls::Dense<10, ls::Linear,
                      ls::DenseOptions{.kernel_initializer = ls::he_normal,
                                       .bias_initializer = ls::random_uniform}>;
  CHECK((L::variables<ls::Shape<3>>[0].initializer == ls::he_normal));
  CHECK((L::variables<ls::Shape<3>>[1].initializer == ls::random_uniform));
  CHECK(L::variables<ls::Shape<3>>[1].fans.in == 10);
  static_assert(std::is_same_v<L::WithActivation<ls::ReLU>::Preactivation, L>);
}

TEST_CASE("Dense: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<ls::Dense<10>, ls::Shape<7>>();
    lockstep_test::check_gradients_for_all_batches<ls::Dense<1>, ls::Shape<1>>();
    lockstep_test::check_gradients_for_all_batches<ls::Dense<17, ls::ReLU>, ls::Shape<33>>();
    lockstep_test::check_gradients<ls::Dense<13, ls::Tanh>, ls::Shape<300>>(48);
    lockstep_test::check_gradients<ls::Dense<5, ls::Sigmoid>, ls::Shape<9>>(33);
    lockstep_test::check_gradients<ls::Dense<200, ls::LeakyReLU<20>>, ls::Shape<4>>(5);
    lockstep_test::check_gradients<ls::Dense<3>, ls::Shape<5>>(300);
    lockstep_test::check_gradients_for_all_batches<ls::Dense<17, ls::GELU>, ls::Shape<5>>();
  });
}

TEST_CASE(
    "Dense: a row's result does not depend on its place in the batch, nor on what is beside it") {
  using In = ls::Shape<50>;
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::LayerRig<ls::Dense<21, ls::ReLU>, In, float> large(70);
    large.forward();
    for (const std::size_t samples : {1u, 20u, 40u}) {
      lockstep_test::LayerRig<ls::Dense<21, ls::ReLU>, In, float> small(samples);
      for (std::size_t i = 0; i < large.weights.size(); ++i)
        std::copy(large.weights[i].begin(), large.weights[i].end(), small.weights[i].begin());
      const std::size_t first = 70 - samples;
      for (std::size_t f = 0; f < In::size; ++f)
        for (std::size_t s = 0; s < samples; ++s)
          small.x[f * small.stride + s] = large.x[f * large.stride + first + s];
      small.forward();
      bool equal = true;
      for (std::size_t f = 0; f < 21; ++f)
        for (std::size_t s = 0; s < samples; ++s)
          if (small.y[f * small.stride + s] != large.y[f * large.stride + first + s]) equal = false;
      CHECK(equal);
    }
  });
}

TEST_CASE("Dense: what is not finite stays visible") {
  lockstep_test::LayerRig<ls::Dense<4, ls::ReLU>, ls::Shape<3>, float> rig(2);
  rig.x[0] = std::numeric_limits<float>::quiet_NaN();
  rig.forward();
  CHECK(std::isnan(rig.y[0]));
  CHECK(std::isfinite(rig.y[1]));
  rig.dy[0] = std::numeric_limits<float>::quiet_NaN();
  rig.backward();
  CHECK(std::isnan(rig.gradients[1][0]));
}

TEST_CASE("Dense: without a bias") {
  using L = ls::Dense<13, ls::ReLU, ls::DenseOptions{.use_bias = false}>;
  static_assert(L::variables<ls::Shape<7>>.size() == 1);
  lockstep_test::check_gradients_for_all_batches<L, ls::Shape<7>>();
  lockstep_test::LayerRig<L, ls::Shape<7>, float> without(20);
  lockstep_test::LayerRig<ls::Dense<13, ls::ReLU>, ls::Shape<7>, float> with(20);
  std::copy(without.weights[0].begin(), without.weights[0].end(), with.weights[0].begin());
  std::fill(with.weights[1].begin(), with.weights[1].end(), 0.0F);
  without.forward();
  with.forward();
  CHECK(std::equal(without.y.begin(), without.y.end(), with.y.begin()));
}
