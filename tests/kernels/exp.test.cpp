#include "lockstep/kernels/exp.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/function_error.hpp"
#include "support/instruction_sets.hpp"

using lockstep_test::grid;
using lockstep_test::map;
using lockstep_test::worst_ulps;

namespace {

constexpr auto exp_of = [](const auto& x) LOCKSTEP_KERNEL_LAMBDA { return exp(x); };
constexpr auto expm1_of = [](const auto& x) LOCKSTEP_KERNEL_LAMBDA { return expm1(x); };
constexpr auto tanh_of = [](const auto& x) LOCKSTEP_KERNEL_LAMBDA { return tanh(x); };

template <class T>
void check(T low, T high) {
  const auto exact_exp = [](long double v) { return std::exp(v); };
  const auto exact_tanh = [](long double v) { return std::tanh(v); };
  for (const auto& x : {grid<T>(low, high, 100001), grid<T>(T(-1), T(1), 100001),
                        grid<T>(T(-1e-3), T(1e-3), 1001)}) {
    CHECK(worst_ulps(x, map(x, exp_of), exact_exp) < 2);
    CHECK(worst_ulps(x, map(x, tanh_of), exact_tanh) < 4);
  }
  const auto exact_expm1 = [](long double v) { return std::expm1(v); };
  for (const auto& x :
       {grid<T>(low, T(0), 100001), grid<T>(T(-1), T(0), 100001), grid<T>(T(-1e-3), T(0), 1001)})
    CHECK(worst_ulps(x, map(x, expm1_of), exact_expm1) < 3);
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const std::vector<T> special{
      T(0), -infinity, infinity, low * 2, high * 2, std::numeric_limits<T>::quiet_NaN(), -T(0)};
  const std::vector<T> e = map(special, exp_of);
  CHECK(e[0] == 1);
  CHECK(e[1] == 0);
  CHECK(e[2] == infinity);
  CHECK(e[3] == 0);
  CHECK(e[4] == infinity);
  CHECK(std::isnan(e[5]));
  CHECK(e[6] == 1);
  const std::vector<T> t = map(special, tanh_of);
  CHECK(t[0] == 0);
  CHECK(t[1] == -1);
  CHECK(t[2] == 1);
  CHECK(std::isnan(t[5]));
  const std::vector<T> m = map(special, expm1_of);
  CHECK(m[0] == 0);
  CHECK(m[1] == -1);
  CHECK(m[3] == -1);
  CHECK(std::isnan(m[5]));
}

}  // namespace

TEST_CASE("exp, expm1 and tanh: errors within the documented bounds, and special values") {
  lockstep_test::for_each_instruction_set([] {
    check<float>(-87.0f, 88.7f);
    check<double>(-708.0, 709.7);
  });
}
