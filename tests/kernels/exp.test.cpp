#include "lockstep/kernels/exp.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/kernels/sweep.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;

namespace {

template <class T>
std::vector<T> exponentials(const std::vector<T>& x) {
  std::vector<T> y(x.size());
  ls::kernels::sweep(
      x.size(), [](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA { out = exp(in); }, x.data(), y.data());
  return y;
}

template <class T>
std::vector<T> tangents(const std::vector<T>& x) {
  std::vector<T> y(x.size());
  ls::kernels::sweep(
      x.size(), [](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA { out = tanh(in); }, x.data(), y.data());
  return y;
}

/// The largest relative error, in units of the type's epsilon.
template <class T, class F>
double worst_error(const std::vector<T>& x, const std::vector<T>& y, F exact) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = exact(static_cast<long double>(x[i]));
    const long double error = std::abs(static_cast<long double>(y[i]) - expected);
    if (error > 0) worst = std::max(worst, static_cast<double>(error / std::abs(expected)));
  }
  return worst / static_cast<double>(std::numeric_limits<T>::epsilon());
}

template <class T>
std::vector<T> grid(T low, T high, std::size_t n) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = low + (high - low) * static_cast<T>(i) / static_cast<T>(n - 1);
  return x;
}

template <class T>
void check(T low, T high) {
  const auto exact_exp = [](long double v) { return std::exp(v); };
  const auto exact_tanh = [](long double v) { return std::tanh(v); };
  for (const auto& x : {grid<T>(low, high, 100001), grid<T>(T(-1), T(1), 100001), grid<T>(T(-1e-3), T(1e-3), 1001)}) {
    CHECK(worst_error(x, exponentials(x), exact_exp) < 2);
    CHECK(worst_error(x, tangents(x), exact_tanh) < 4);
  }
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const std::vector<T> special{T(0), -infinity, infinity, low * 2, high * 2, std::numeric_limits<T>::quiet_NaN(),
                               -T(0)};
  const std::vector<T> e = exponentials(special);
  CHECK(e[0] == 1);
  CHECK(e[1] == 0);
  CHECK(e[2] == infinity);
  CHECK(e[3] == 0);
  CHECK(e[4] == infinity);
  CHECK(std::isnan(e[5]));
  CHECK(e[6] == 1);
  const std::vector<T> t = tangents(special);
  CHECK(t[0] == 0);
  CHECK(t[1] == -1);
  CHECK(t[2] == 1);
  CHECK(std::isnan(t[5]));
}

}  // namespace

TEST_CASE("exp and tanh: errors within the documented bounds, and special values") {
  lockstep_test::for_each_instruction_set([] {
    check<float>(-87.0f, 88.7f);
    check<double>(-708.0, 709.7);
  });
}
