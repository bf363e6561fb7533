#include "lockstep/layers/average_pooling2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::AveragePooling2D;
using ls::Extent2D;
using ls::Padding;
using ls::PoolingOptions;
using ls::Shape;

TEST_CASE("AveragePooling2D: shapes") {
  static_assert(std::is_same_v<AveragePooling2D<>::Output<Shape<26, 27, 32>>, Shape<13, 13, 32>>);
  static_assert(
      std::is_same_v<
          AveragePooling2D<3, PoolingOptions{.stride = {2, 1},
                                             .padding = Padding::same}>::Output<Shape<7, 2, 1>>,
          Shape<4, 2, 1>>);
}

TEST_CASE("AveragePooling2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<AveragePooling2D<>, Shape<5, 6, 3>>();
    lockstep_test::check_gradients_for_all_batches<
        AveragePooling2D<3, PoolingOptions{.stride = 2, .padding = Padding::same}>,
        Shape<6, 5, 2>>();
    lockstep_test::check_gradients<AveragePooling2D<Extent2D{1, 2}, PoolingOptions{.stride = 3}>,
                                   Shape<8, 9, 1>>(5);
    lockstep_test::check_gradients<
        AveragePooling2D<Extent2D{3, 2}, PoolingOptions{.stride = {1, 2}}>, Shape<4, 4, 5>>(64);
    lockstep_test::check_gradients<
        AveragePooling2D<Extent2D{4, 3}, PoolingOptions{.padding = Padding::same}>, Shape<5, 7, 2>>(
        17);
  });
}

TEST_CASE("AveragePooling2D: with Padding::same the mean is over what lies inside the image") {
  lockstep_test::LayerRig<
      AveragePooling2D<3, PoolingOptions{.stride = 1, .padding = Padding::same}>, Shape<3, 4, 2>,
      float>
      rig(2);
  for (float& x : rig.x) x = 3;
  rig.forward();
  for (const float y : rig.y) CHECK(y == doctest::Approx(3));
}
