#include "lockstep/core/constraint.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

TEST_CASE("Constraint: Keras's names and defaults") {
  static_assert(ls::Constraint{}.kind == ls::Constraint::Kind::none);
  static_assert(ls::Constraint(ls::NonNeg{}).kind == ls::Constraint::Kind::non_negative);
  constexpr ls::Constraint most = ls::MaxNorm{}, unit = ls::UnitNorm{.axis = 1},
                           both = ls::MinMaxNorm{.rate = 0.5};
  CHECK((most.minimum == 0 && most.maximum == 2 && most.rate == 1 && most.axis == 0 &&
         most.axes == 1));
  CHECK((unit.minimum == 1 && unit.maximum == 1 && unit.axis == 1));
  CHECK((both.minimum == 0 && both.maximum == 1 && both.rate == 0.5));
}
