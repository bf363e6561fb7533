#include "lockstep/layers/permute.hpp"

#include <doctest/doctest.h>

#include <type_traits>

#include "golden/image_layers.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_layer.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_golden;
using ls::Permute;
using ls::Shape;

TEST_CASE("Permute: shapes") {
  static_assert(std::is_same_v<Permute<3, 1, 2>::Output<Shape<2, 3, 4>>, Shape<4, 2, 3>>);
  static_assert(ls::InputOfRank<0, Shape<2, 3>, 2> && !ls::InputOfRank<0, Shape<2, 3>, 3>);
  static_assert(ls::detail::is_permutation<2, 3, 1>() && !ls::detail::is_permutation<2, 2, 1>());
}

TEST_CASE("Permute: Keras's values and gradients") {
  namespace permuted = lockstep_test::golden::permute;
  check_golden<Permute<3, 1, 2>, Shape<2, 3, 4>>(
      {permuted::x, permuted::y, permuted::dy, permuted::dx});
}

TEST_CASE("Permute: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<Permute<2, 1>, Shape<3, 4>>(); });
}
