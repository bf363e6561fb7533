#include "lockstep/network/spectral_normalization.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "golden/volumes.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::Shape, ls::SpectralNormalization, ls::SpectralNormalizationOptions;

namespace {

/// So many that u is the singular vector: its changes with the kernel are then of second order.
constexpr SpectralNormalizationOptions many{.power_iterations = 300};

static_assert(SpectralNormalization<ls::Dense<8>>::flop<Shape<20>> ==
              ls::Dense<8>::flop<Shape<20>>);

}  // namespace

TEST_CASE("SpectralNormalization: Keras's values and gradients, and its vector") {
  namespace dense = golden::spectral_dense;
  check_golden<SpectralNormalization<ls::Dense<3, ls::Tanh>>, Shape<5>>(
      {dense::x,
       dense::y,
       dense::dy,
       dense::dx,
       {{dense::kernel, dense::kernel_gradient}, {dense::bias, dense::bias_gradient}},
       {dense::new_u},
       {dense::u}});
  namespace conv = golden::spectral_conv;
  check_golden<
      SpectralNormalization<ls::Conv2D<4, 2>, SpectralNormalizationOptions{.power_iterations = 3}>,
      Shape<3, 4, 2>>({conv::x,
                       conv::y,
                       conv::dy,
                       conv::dx,
                       {{conv::kernel, conv::kernel_gradient}, {conv::bias, conv::bias_gradient}},
                       {conv::new_u},
                       {conv::u}});
}

TEST_CASE("SpectralNormalization: gradients against differences") {
  check_gradients_for_all_batches<SpectralNormalization<ls::Dense<3, ls::Tanh>, many>, Shape<4>>();
  check_gradients<SpectralNormalization<ls::Conv2D<3, 2>, many>, Shape<3, 4, 2>>(3);
  check_gradients<SpectralNormalization<ls::Conv1D<3, 2>, many>, ls::Sequence<5, 2>>(3);
}

TEST_CASE("SpectralNormalization: inference divides by the same number, and changes no vector") {
  LayerRig<SpectralNormalization<ls::Dense<3>, many>, Shape<4>, double> rig(5);
  rig.forward();
  const std::vector<double> y(rig.y.begin(), rig.y.end()),
      u(rig.state[0].begin(), rig.state[0].end());
  for (const bool frozen : {false, true}) {
    rig.context.training = frozen;
    rig.context.frozen = frozen;
    for (double& value : rig.state[0]) value *= 3;  // its length makes no difference
    const std::vector<double> before(rig.state[0].begin(), rig.state[0].end());
    rig.forward();
    CHECK(std::equal(before.begin(), before.end(), rig.state[0].begin()));
    double worst = 0;
    for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(rig.y[i] - y[i]));
    CHECK(worst < 1e-12);
  }
  // The largest singular value is then 1: no direction is made longer.
  for (double& value : rig.weights[0]) value *= 7;
  rig.forward();
  CHECK(std::abs(rig.y[0] - y[0]) < 1e-12);
}

TEST_CASE("SpectralNormalization: a kernel of zeros stays, and so does the vector") {
  LayerRig<SpectralNormalization<ls::Dense<3>>, Shape<4>, float> rig(5);
  for (float& value : rig.weights[0]) value = 0;
  const std::vector<float> u(rig.state[0].begin(), rig.state[0].end());
  rig.forward();
  rig.backward();
  CHECK(std::equal(u.begin(), u.end(), rig.state[0].begin()));
  for (std::size_t i = 0; i < 3; ++i) CHECK(rig.y[i * 16] == rig.weights[1][i]);
  for (const float gradient : rig.gradients[0]) CHECK(std::isfinite(gradient));
}

// Its kernel is read as floats, so that none of 8 bits may take its place.
static_assert(ls::Dense<3>::variables<Shape<40>>[0].product_units == 3);
static_assert(SpectralNormalization<ls::Dense<3>>::variables<Shape<40>>[0].product_units == 0);

TEST_CASE("SpectralNormalization: names of variables are Keras's") {
  using Net = ls::Sequential<ls::Input<4, 4, 1>, SpectralNormalization<ls::Conv2D<2, 3>>,
                             ls::Flatten, SpectralNormalization<ls::Dense<2>>>;
  CHECK(Net::variable_names<Net::InputShape>() ==
        std::vector<std::string>{
            "spectral_normalization/conv2d/kernel", "spectral_normalization/conv2d/bias",
            "spectral_normalization_1/dense/kernel", "spectral_normalization_1/dense/bias"});
  CHECK(Net::state_variable_names<Net::InputShape>() ==
        std::vector<std::string>{"spectral_normalization/vector_u",
                                 "spectral_normalization_1/vector_u"});
}
