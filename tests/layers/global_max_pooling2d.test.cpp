#include "lockstep/layers/global_max_pooling2d.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::Shape;

TEST_CASE("GlobalMaxPooling2D: shape and gradients") {
  static_assert(std::is_same_v<ls::GlobalMaxPooling2D::Output<Shape<8, 7, 32>>, Shape<32>>);
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<ls::GlobalMaxPooling2D, Shape<3, 4, 5>>();
    lockstep_test::check_gradients<ls::GlobalMaxPooling2D, Shape<1, 1, 3>>(2);
  });
}
