#include "lockstep/layers/discretization.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/signature.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using Prices = ls::Discretization<ls::Bins{0.0, 10.0, 100.0}>;

static_assert(Prices::bins == 4);
static_assert(
    ls::signature<ls::Sequential<ls::Input<2>, Prices, ls::Dense<2>>> !=
    ls::signature<
        ls::Sequential<ls::Input<2>, ls::Discretization<ls::Bins{0.0, 10.0, 99.0}>, ls::Dense<2>>>);

TEST_CASE("Discretization: the bins of Keras") {
  // np.asarray(keras.layers.Discretization(bin_boundaries=[0., 10., 100.])(x)), Keras 3.15
  const std::vector<double> x{
      -5, 0, 0.5, 10, 99.99, 100, 1e9, -1e9, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<double> bins{0, 1, 1, 2, 2, 3, 3, 0, 3};
  lockstep_test::for_each_instruction_set([&] {
    const auto check = [&]<class T>(T) {
      lockstep_test::LayerRig<Prices, ls::Shape<9>, T> rig(2);
      for (std::size_t f = 0; f < 9; ++f) rig.x[f * rig.stride + 1] = static_cast<T>(x[f]);
      rig.forward();
      rig.backward();
      for (std::size_t f = 0; f < 9; ++f) {
        CHECK(rig.y[f * rig.out_stride + 1] == static_cast<T>(bins[f]));
        CHECK(rig.dx[f * rig.stride + 1] == T(0));
      }
    };
    check(float{});
    check(double{});
  });
}

TEST_CASE("Discretization: bins of learned boundaries are those of the same Bins") {
  static_assert(ls::Discretization<4>::bins == 4);
  lockstep_test::for_each_instruction_set([&] {
    const auto check = [&]<class T>(T) {
      lockstep_test::LayerRig<Prices, ls::Shape<9>, T> known(2);
      lockstep_test::LayerRig<ls::Discretization<4>, ls::Shape<9>, T> learned(2);
      for (std::size_t f = 0; f < 9; ++f)
        known.x[f * known.stride] = learned.x[f * learned.stride] =
            static_cast<T>(static_cast<double>(f) * 14 - 5);
      std::ranges::copy(std::vector<T>{0, 10, 100}, learned.state_spans[0].begin());
      known.forward();
      learned.forward();
      learned.backward();
      CHECK(std::ranges::equal(known.y, learned.y));
      CHECK(std::ranges::all_of(learned.dx, [](T number) { return number == T(0); }));
    };
    check(float{});
    check(double{});
  });
}

TEST_CASE("Discretization: an Embedding of the bins is trained") {
  lockstep_test::check_gradients<
      ls::Sequential<ls::Input<3>, ls::Discretization<ls::Bins{-0.5, 0.5}>, ls::Embedding<3, 4>,
                     ls::Flatten, ls::Dense<2>>>(7);
}
