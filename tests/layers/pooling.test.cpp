#include "lockstep/layers/pooling.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;
using ls::AveragePooling2D;
using ls::Extent2D;
using ls::MaxPooling2D;
using ls::Padding;
using ls::PoolingOptions;
using ls::Shape;

TEST_CASE("MaxPooling2D: shapes; the stride is that of the pool, unless another is given") {
  static_assert(std::is_same_v<MaxPooling2D<>::Output<Shape<26, 27, 32>>, Shape<13, 13, 32>>);
  static_assert(
      std::is_same_v<MaxPooling2D<Extent2D{2, 3}>::Output<Shape<7, 7, 1>>, Shape<3, 2, 1>>);
  static_assert(std::is_same_v<MaxPooling2D<3, PoolingOptions{.stride = 2}>::Output<Shape<7, 8, 1>>,
                               Shape<3, 3, 1>>);
  static_assert(std::is_same_v<
                MaxPooling2D<3, PoolingOptions{.padding = Padding::same}>::Output<Shape<7, 2, 1>>,
                Shape<3, 1, 1>>);
  static_assert(
      std::is_same_v<MaxPooling2D<3, PoolingOptions{.stride = 1, .padding = Padding::same}>::Output<
                         Shape<7, 2, 1>>,
                     Shape<7, 2, 1>>);
}

TEST_CASE("MaxPooling2D: gradients") {
  for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<MaxPooling2D<>, Shape<5, 6, 3>>();
    lockstep_test::check_gradients_for_all_batches<
        MaxPooling2D<3, PoolingOptions{.stride = 2, .padding = Padding::same}>, Shape<6, 5, 2>>();
    lockstep_test::check_gradients<MaxPooling2D<Extent2D{1, 2}, PoolingOptions{.stride = 3}>,
                                   Shape<8, 9, 1>>(5);
    lockstep_test::check_gradients<MaxPooling2D<Extent2D{3, 2}, PoolingOptions{.stride = {1, 2}}>,
                                   Shape<4, 4, 5>>(64);
    lockstep_test::check_gradients<
        MaxPooling2D<Extent2D{4, 3}, PoolingOptions{.padding = Padding::same}>, Shape<5, 7, 2>>(17);
    lockstep_test::check_gradients<MaxPooling2D<1>, Shape<2, 2, 2>>(3);
  });
}

TEST_CASE(
    "MaxPooling2D: what lies outside the image is no candidate, however small the numbers are") {
  LayerRig<MaxPooling2D<2, PoolingOptions{.padding = Padding::same}>, Shape<3, 3, 1>, float> rig(2);
  for (float& x : rig.x) x -= 100;
  rig.forward();
  for (const float y : rig.y) CHECK(y < -98);
}

TEST_CASE("MaxPooling2D: the gradient goes to the first of equal maxima, once") {
  for_each_instruction_set([] {
    LayerRig<MaxPooling2D<>, Shape<2, 4, 1>, float> rig(1);
    for (float& x : rig.x) x = 0;
    rig.x[3 * 16] = rig.x[6 * 16] = 2;  // row 0, column 3 and row 1, column 2
    rig.forward();
    rig.backward();
    for (std::size_t f = 0; f < 8; ++f)
      CHECK(rig.dx[f * 16] == (f == 0 ? rig.dy[0] : f == 3 ? rig.dy[16] : 0));
  });
}

TEST_CASE("MaxPooling2D: NaN stays visible, wherever it stands in its window") {
  for_each_instruction_set([] {
    for (std::size_t f = 0; f < 4; ++f) {
      LayerRig<MaxPooling2D<>, Shape<2, 2, 1>, float> rig(1);
      rig.x[f * 16] = std::numeric_limits<float>::quiet_NaN();
      rig.forward();
      CHECK(std::isnan(rig.y[0]));
      CHECK(!std::isnan(rig.y[1]));
    }
  });
}

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

TEST_CASE("GlobalMaxPooling2D: shape and gradients") {
  static_assert(std::is_same_v<ls::GlobalMaxPooling2D::Output<Shape<8, 7, 32>>, Shape<32>>);
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<ls::GlobalMaxPooling2D, Shape<3, 4, 5>>();
    lockstep_test::check_gradients<ls::GlobalMaxPooling2D, Shape<1, 1, 3>>(2);
  });
}

TEST_CASE("GlobalAveragePooling2D: shape and gradients") {
  static_assert(std::is_same_v<ls::GlobalAveragePooling2D::Output<Shape<8, 7, 32>>, Shape<32>>);
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<ls::GlobalAveragePooling2D, Shape<3, 4, 5>>();
    lockstep_test::check_gradients<ls::GlobalAveragePooling2D, Shape<1, 1, 3>>(2);
  });
}
