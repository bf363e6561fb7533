#include "lockstep/kernels/normal_distribution.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/function_error.hpp"
#include "support/instruction_sets.hpp"

namespace {

long double exact_probability(long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
long double exact_density(long double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<long double>);
}

template <class T>
void check(T far) {
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
    check<float>(20.0f);
    check<double>(45.0);
  });
}
