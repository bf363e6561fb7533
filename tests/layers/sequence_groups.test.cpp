#include "lockstep/layers/sequence_groups.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "golden/recurrent.hpp"
#include "lockstep/layers/group_normalization.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_struct.hpp"

namespace ls = lockstep;

TEST_CASE("GroupNormalization: of a sequence, over all of its positions, as in Keras") {
  using In = ls::Sequence<5, 6>;
  lockstep_test::check_golden_struct<lockstep_test::golden::group_normalization_sequence,
                                     ls::GroupNormalization<2>, In>(3);
  lockstep_test::check_gradients_for_all_batches<ls::GroupNormalization<-1>, ls::Sequence<3, 2>>();
}

TEST_CASE("GroupNormalization: of a sequence of images") {
  using L = ls::GroupNormalization<2>;
  static_assert(std::is_same_v<L::Output<ls::Sequence<3, 2, 2, 4>>, ls::Sequence<3, 2, 2, 4>>);
  lockstep_test::check_gradients<L, ls::Sequence<3, 2, 2, 4>>(5);
}

TEST_CASE("GroupNormalization: the mask travels on") {
  static_assert(ls::detail::keeps_mask<ls::GroupNormalization<2>>);
}
