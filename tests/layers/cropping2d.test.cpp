#include "lockstep/layers/cropping2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Cropping2D;
using ls::Margins2D;
using ls::Shape;

TEST_CASE("Cropping2D: shapes") {
  static_assert(std::is_same_v<Cropping2D<1>::Output<Shape<4, 5, 4>>, Shape<2, 3, 4>>);
  static_assert(ls::InputWithRoomFor<0, Shape<3, 3, 1>, ls::detail::LeastCropped<1>>);
  static_assert(!ls::InputWithRoomFor<0, Shape<3, 2, 1>, ls::detail::LeastCropped<1>>);
}

TEST_CASE("Cropping2D: Keras's values and gradients") {
  namespace cropped = lockstep_test::golden::cropping;
  check_golden<Cropping2D<Margins2D{1, 0, 2, 1}>, Shape<3, 5, 2>>(
      {cropped::x, cropped::y, cropped::dy, cropped::dx});
}

TEST_CASE("Cropping2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Cropping2D<Margins2D{0, 1}>, Shape<3, 4, 2>>();
  });
}
