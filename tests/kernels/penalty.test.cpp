#include "lockstep/kernels/penalty.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace ls = lockstep;

namespace {

template <class T>
void check(const ls::Regularizer& regularizer, std::size_t n, double tolerance) {
  CAPTURE(n);
  std::mt19937 random(1);
  const auto values = lockstep_test::random_array<T>(n, random);
  if (n > 2) values[2] = 0;
  const lockstep_test::Array<T> gradient(n, T(2));
  ls::kernels::add_penalty_gradient(regularizer, 3, n, static_cast<const T*>(values.data()),
                                    gradient.data());
  double expected = 0, worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(values[i]), sign = v > 0 ? 1 : v < 0 ? -1 : 0;
    expected += regularizer.l1 * std::abs(v) + regularizer.l2 * v * v;
    worst = std::max(worst, std::abs(static_cast<double>(gradient[i]) -
                                     (2 + 3 * (regularizer.l1 * sign + 2 * regularizer.l2 * v))));
  }
  CHECK(ls::kernels::penalty(regularizer, n, static_cast<const T*>(values.data())) ==
        doctest::Approx(expected).epsilon(tolerance));
  CHECK(worst < 10 * tolerance);
}

}  // namespace

TEST_CASE("penalty: its value, and its gradient, 0 at 0") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t n : {0u, 1u, 16u, 17u, 1500u}) {
      for (const ls::Regularizer regularizer :
           {ls::Regularizer(ls::L1{0.5}), ls::Regularizer(ls::L2{0.25}),
            ls::L1L2{.l1 = 0.5, .l2 = 2}}) {
        check<float>(regularizer, n, 1e-6);
        check<double>(regularizer, n, 1e-14);
      }
    }
  });
}
