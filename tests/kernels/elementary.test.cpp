#include "lockstep/kernels/elementary.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>
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

namespace {

template <class T>
void check_log1p() {
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
    check_log1p<float>();
    check_log1p<double>();
  });
}

namespace {

long double exact_probability(long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
long double exact_density(long double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<long double>);
}

template <class T>
void check_normal_distribution(T far) {
  constexpr long double ulp = std::numeric_limits<T>::epsilon();
  const auto x = lockstep_test::grid<T>(-far, far, 40001);
  const auto probability = lockstep_test::map(x, [](const auto& v) LOCKSTEP_KERNEL_LAMBDA {
    return lockstep::kernels::normal_distribution(v).probability;
  });
  const auto density = lockstep_test::map(x, [](const auto& v) LOCKSTEP_KERNEL_LAMBDA {
    return lockstep::kernels::normal_distribution(v).density;
  });
  long double absolute = 0, relative = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double v = static_cast<long double>(x[i]);
    for (const auto& [got, exact] :
         {std::pair{probability[i], exact_probability(v)}, {density[i], exact_density(v)}}) {
      const long double error = std::abs(static_cast<long double>(got) - exact);
      absolute = std::max(absolute, error / ulp);
      if (exact > static_cast<long double>(std::numeric_limits<T>::min()))
        relative = std::max(relative, error / exact / ulp / (4 + v * v));
    }
  }
  CHECK(absolute < 1);
  CHECK(relative < 1);
  const std::vector<T> special{0, std::numeric_limits<T>::max(), -std::numeric_limits<T>::max()};
  const auto ends = lockstep_test::map(special, [](const auto& v) LOCKSTEP_KERNEL_LAMBDA {
    return lockstep::kernels::normal_distribution(v).probability;
  });
  CHECK(ends == std::vector<T>{T(0.5), 1, 0});
}

}  // namespace

TEST_CASE("normal_distribution: errors within the documented bounds") {
  lockstep_test::for_each_instruction_set([] {
    check_normal_distribution<float>(20.0f);
    check_normal_distribution<double>(45.0);
  });
}
