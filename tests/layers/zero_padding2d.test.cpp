#include "lockstep/layers/zero_padding2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Margins2D;
using ls::Shape;
using ls::ZeroPadding2D;

TEST_CASE("ZeroPadding2D: shapes") {
  static_assert(std::is_same_v<ZeroPadding2D<>::Output<Shape<2, 3, 4>>, Shape<4, 5, 4>>);
  static_assert(
      std::is_same_v<ZeroPadding2D<Margins2D{1, 2}>::Output<Shape<2, 3, 4>>, Shape<4, 7, 4>>);
}

TEST_CASE("ZeroPadding2D: Keras's values and gradients") {
  namespace padded = lockstep_test::golden::zero_padding;
  check_golden<ZeroPadding2D<Margins2D{1, 0, 2, 1}>, Shape<2, 3, 2>>(
      {padded::x, padded::y, padded::dy, padded::dx});
}

TEST_CASE("ZeroPadding2D: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<ZeroPadding2D<2>, Shape<3, 2, 2>>(); });
}
