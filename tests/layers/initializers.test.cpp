#include "lockstep/layers/initializers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ls = lockstep;

namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};

Moments moments(ls::Initializer initializer, ls::Fans fans) {
  ls::RandomStream random{ls::RandomKey(7)};
  constexpr int n = 40000;
  double sum = 0, squares = 0, largest = 0;
  for (int i = 0; i < n; ++i) {
    const double value = initializer(random, fans);
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n)), largest};
}

void check_uniform(ls::Initializer initializer, ls::Fans fans, double limit) {
  const Moments m = moments(initializer, fans);
  CHECK(std::abs(m.mean) < 0.02 * limit);
  CHECK(m.deviation == doctest::Approx(limit / std::sqrt(3.0)).epsilon(0.02));
  CHECK(m.largest <= limit);
  CHECK(m.largest > 0.999 * limit);
}

void check_truncated_normal(ls::Initializer initializer, ls::Fans fans, double deviation) {
  const Moments m = moments(initializer, fans);
  CHECK(std::abs(m.mean) < 0.03 * deviation);
  CHECK(m.deviation == doctest::Approx(deviation).epsilon(0.02));
  CHECK(m.largest <= 2 * deviation / 0.8796256610342398);
}

}  // namespace

TEST_CASE("initializers: Keras's ranges and deviations") {
  const ls::Fans fans{.in = 9, .out = 288};
  check_uniform(ls::glorot_uniform, fans, std::sqrt(6.0 / 297));
  check_uniform(ls::he_uniform, fans, std::sqrt(6.0 / 9));
  check_uniform(ls::lecun_uniform, fans, std::sqrt(3.0 / 9));
  check_uniform(ls::random_uniform, fans, 0.05);
  check_truncated_normal(ls::glorot_normal, fans, std::sqrt(2.0 / 297));
  check_truncated_normal(ls::he_normal, fans, std::sqrt(2.0 / 9));
  check_truncated_normal(ls::lecun_normal, fans, std::sqrt(1.0 / 9));
  CHECK(moments(ls::random_normal, fans).deviation == doctest::Approx(0.05).epsilon(0.02));
  CHECK(moments(ls::zeros, fans).largest == 0);
  CHECK(moments(ls::ones, fans).mean == 1);
}
