#include "lockstep/layers/up_sampling.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "layers/token_testing.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Extent2D;
using ls::Shape;
using ls::UpSampling1D, ls::Sequence;
using ls::UpSampling2D;
using ls::UpSampling2DOptions;

static_assert(std::is_same_v<UpSampling1D<>::Output<Sequence<5, 2>>, Sequence<10, 2>>);

TEST_CASE("UpSampling1D: where tokens go, and gradients against differences") {
  lockstep_test::check_tokens<UpSampling1D<3>>([](int t) { return t / 3; });
  lockstep_test::check_gradients_for_all_batches<UpSampling1D<3>, Sequence<5, 2>>();
}

TEST_CASE("UpSampling2D: shapes") {
  static_assert(std::is_same_v<UpSampling2D<>::Output<Shape<4, 5, 4>>, Shape<8, 10, 4>>);
}

TEST_CASE("UpSampling2D: Keras's values and gradients") {
  namespace nearest = lockstep_test::golden::up_sampling;
  check_golden<UpSampling2D<Extent2D{2, 3}>, Shape<2, 3, 2>>(
      {nearest::x, nearest::y, nearest::dy, nearest::dx});
  using Bilinear = UpSampling2D<Extent2D{2, 3}, UpSampling2DOptions{ls::Interpolation::bilinear}>;
  namespace bilinear = lockstep_test::golden::up_sampling_bilinear;
  check_golden<Bilinear, Shape<3, 2, 2>>({bilinear::x, bilinear::y, bilinear::dy, bilinear::dx});
}

TEST_CASE("UpSampling2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<UpSampling2D<>, Shape<3, 2, 2>>();
    constexpr UpSampling2DOptions bilinear{ls::Interpolation::bilinear};
    lockstep_test::check_gradients_for_all_batches<UpSampling2D<3, bilinear>, Shape<1, 3, 2>>();
  });
}
