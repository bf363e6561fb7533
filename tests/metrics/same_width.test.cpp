#include "lockstep/metrics/same_width.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"

TEST_CASE("require_same_width: the widths are in the message") {
  lockstep::detail::require_same_width("M", 3, 3);
  CHECK_THROWS_WITH_AS(
      lockstep::detail::require_same_width("M", 3, 1),
      "M: the model has 3 outputs and the data 1 target values per sample; expected as many",
      lockstep::DataError);
}
