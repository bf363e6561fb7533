#include "lockstep/kernels/log.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "kernels/function_error.hpp"
#include "support/instruction_sets.hpp"

namespace {

template <class T>
void check() {
  using lockstep_test::grid;
  const auto log1p_of = [](const auto& x) LOCKSTEP_KERNEL_LAMBDA { return log1p(x); };
  const auto exact = [](long double x) { return std::log1p(x); };
  for (const auto& x :
       {grid<T>(T(0), T(1), 100001), grid<T>(T(0), T(1e-3), 1001), grid<T>(T(0), T(1e-30), 101)})
    CHECK(lockstep_test::worst_ulps(x, lockstep_test::map(x, log1p_of), exact) < 3);
  CHECK(std::isnan(
      lockstep_test::map(std::vector<T>{std::numeric_limits<T>::quiet_NaN()}, log1p_of)[0]));
}

}  // namespace

TEST_CASE("log1p: errors within the documented bounds") {
  lockstep_test::for_each_instruction_set([] {
    check<float>();
    check<double>();
  });
}
