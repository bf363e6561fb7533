#include "lockstep/optimizers/power.hpp"

#include <doctest/doctest.h>

using lockstep::detail::power;

TEST_CASE("power: whole exponents") {
  static_assert(power(2, 10) == 1024 && power(0, 0) == 1 && power(0.5, 3) == 0.125);
  CHECK(power(0.999, 1000) == doctest::Approx(0.36769542477096373).epsilon(1e-13));
  CHECK(power(0.9, 1'000'000'000'000) == 0);
}
