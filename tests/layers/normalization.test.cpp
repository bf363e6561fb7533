#include "lockstep/layers/normalization.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::Normalization;
using ls::NormalizationOptions;
using ls::Shape;
namespace golden = lockstep_test::golden;

namespace {

using Values = std::span<const double>;

template <class L>
void check(Values x, Values y, Values dy, Values dx) {
  using In = Shape<2, 3>;
  lockstep_test::for_each_instruction_set([&] {
    lockstep_test::LayerRig<L, In, double> rig(2);
    std::copy(std::begin(golden::normalization::mean), std::end(golden::normalization::mean),
              rig.state[0].begin());
    std::copy(std::begin(golden::normalization::variance),
              std::end(golden::normalization::variance), rig.state[1].begin());
    const auto place = [&](std::size_t i) { return i % In::size * rig.stride + i / In::size; };
    for (std::size_t i = 0; i < x.size(); ++i) {
      rig.x[place(i)] = x[i];
      rig.dy[place(i)] = dy[i];
    }
    rig.forward();
    rig.backward();
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(std::abs(rig.y[place(i)] - y[i]) < 1e-7);
      CHECK(std::abs(rig.dx[place(i)] - dx[i]) < 1e-7);
    }
  });
}

}  // namespace

TEST_CASE("Normalization: Keras's values and gradients, with mean and variance of the data") {
  namespace forth = golden::normalization;
  check<Normalization<>>(forth::x, forth::y, forth::dy, forth::dx);
  namespace back = golden::normalization_inverted;
  check<Normalization<NormalizationOptions{.invert = true}>>(back::x, back::y, back::dy, back::dx);
}

TEST_CASE("Normalization: variables that are not trained; gradients") {
  const auto& state = Normalization<>::state_variables<Shape<4, 5, 3>>;
  REQUIRE(state.size() == 2);
  CHECK(state[0].name == "mean");
  CHECK(state[1].name == "variance");
  CHECK(state[1].size() == 3);
  for (const ls::Variable& variable : state)
    CHECK(variable.is_constant);  // so that no step averages and rounds it
  lockstep_test::check_gradients_for_all_batches<Normalization<>, Shape<3, 5>>();
}

TEST_CASE("Normalization: a channel that is always the same stays finite") {
  lockstep_test::LayerRig<Normalization<>, Shape<1>, float> rig(1);
  rig.state[0][0] = rig.x[0];
  rig.state[1][0] = 0;
  rig.forward();
  CHECK(rig.y[0] == 0);
}
