#include "lockstep/core/portable_functions.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <numbers>

namespace portable = lockstep::portable;
using lockstep::detail::power;

TEST_CASE("power: whole exponents") {
  static_assert(power(2, 10) == 1024 && power(0, 0) == 1 && power(0.5, 3) == 0.125);
  CHECK(power(0.999, 1000) == doctest::Approx(0.36769542477096373).epsilon(1e-13));
  CHECK(power(0.9, 1'000'000'000'000) == 0);
}

TEST_CASE("portable functions: as those of the standard library, up to the last bits") {
  for (int i = -700; i <= 700; ++i) {
    const double x = i * 0.997;
    CHECK(portable::exp(x) == doctest::Approx(std::exp(x)).epsilon(1e-15 * (1 + std::abs(x))));
  }
  for (int i = 1; i <= 1000; ++i) {
    for (const double x : {i * 1e-3, i * 0.317, i * 1e100, i * 1e-300})
      CHECK(std::abs(portable::log(x) - std::log(x)) <= 1e-15 * (1 + std::abs(std::log(x))));
    CHECK(std::abs(portable::cos_pi(i / 1000.0) - std::cos(std::numbers::pi * i / 1000.0)) <=
          1e-15);
  }
  for (const double x : {0.25, 0.5, 0.96, 3.0})
    for (const double y : {0.0, 0.5, 1.0, 7.0, 12.34, -2.5})
      CHECK(portable::power(x, y) == doctest::Approx(std::pow(x, y)).epsilon(1e-14));
}

TEST_CASE("portable functions: what is exact") {
  CHECK(portable::cos_pi(0) == 1);
  CHECK(portable::cos_pi(0.5) == 0);
  CHECK(portable::cos_pi(1) == -1);
  CHECK(portable::exp(0) == 1);
  CHECK(portable::log(1) == 0);
  CHECK(portable::power(0.5, 3) == 0.125);
  CHECK(portable::power(0, 0.5) == 0);
  CHECK(portable::power(0, 0) == 1);
}
