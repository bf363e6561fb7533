#include "lockstep/collectives/reduction/combine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace lockstep;

TEST_CASE_TEMPLATE("combine: element by element, for any length, also in place", T, float, double, std::int64_t) {
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<T> a(count + 1, T(99)), b(count), sum(count + 1, T(99));
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<T>(i);
      b[i] = static_cast<T>(3 * i) - T(50);
    }
    detail::combine<ReduceOp::sum>(sum.data(), a.data(), b.data(), count);
    std::vector<T> largest = a;
    detail::combine<ReduceOp::max>(largest.data(), largest.data(), b.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(sum[i] == a[i] + b[i]);
      CHECK(largest[i] == std::max(a[i], b[i]));
    }
    CHECK(sum[count] == T(99));
    CHECK(largest[count] == T(99));
  }
}

TEST_CASE("combine: the maximum of anything and NaN is NaN, on either side") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(detail::combine<ReduceOp::max>(1.0, nan)));
  CHECK(std::isnan(detail::combine<ReduceOp::max>(nan, 1.0)));
  CHECK(detail::combine<ReduceOp::max>(-1.0, -2.0) == -1.0);
}

TEST_CASE("combine: integers wrap around") {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  CHECK(detail::combine<ReduceOp::sum>(largest, std::int64_t{1}) == std::numeric_limits<std::int64_t>::min());
}
