#include "lockstep/core/regularizer.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/variable.hpp"

namespace ls = lockstep;

TEST_CASE("Regularizer: Keras's names and defaults; a variable can have one") {
  static_assert(ls::Regularizer(ls::L1{}) == ls::Regularizer{.l1 = 0.01, .l2 = 0});
  static_assert(ls::Regularizer(ls::L2{}) == ls::Regularizer{.l1 = 0, .l2 = 0.01});
  static_assert(ls::L1L2{}.is_none() && !ls::Regularizer(ls::L1{}).is_none());
  constexpr ls::Variable plain{"kernel", {2, 3}, nullptr};
  constexpr ls::Variable with = plain.with(ls::L2{0.5}, ls::NonNeg{});
  CHECK(plain.regularizer.is_none());
  CHECK(with.regularizer.l2 == 0.5);
  CHECK((with.constraint == ls::NonNeg{}));
  CHECK(with.size() == 6);
}
