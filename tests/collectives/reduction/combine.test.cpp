#include "lockstep/collectives/reduction/combine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace lockstep;

TEST_CASE_TEMPLATE("combine: element by element, for any length, also in place", T, float, double,
                   std::int64_t) {
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<T> a(count + 1, T(99)), b(count), sum(count + 1, T(99));
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<T>(i);
      b[i] = static_cast<T>(3 * i) - T(50);
    }
    detail::combine({data_type_of<T>, ReduceOp::sum}, sum.data(), a.data(), b.data(), count);
    std::vector<T> largest = a;
    detail::combine({data_type_of<T>, ReduceOp::max}, largest.data(), largest.data(), b.data(),
                    count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(sum[i] == a[i] + b[i]);
      CHECK(largest[i] == std::max(a[i], b[i]));
    }
    CHECK(sum[count] == T(99));
    CHECK(largest[count] == T(99));
  }
}

namespace {

template <class T>
T combined(ReduceOp op, T a, T b) {
  detail::combine({data_type_of<T>, op}, &a, &a, &b, 1);
  return a;
}

}  // namespace

TEST_CASE_TEMPLATE("combine: the maximum of anything and NaN is NaN, on either side", T, float,
                   double) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  CHECK(std::isnan(combined(ReduceOp::max, T(1), nan)));
  CHECK(std::isnan(combined(ReduceOp::max, nan, T(1))));
  CHECK(combined(ReduceOp::max, T(-1), T(-2)) == T(-1));
}

TEST_CASE("combine: integers wrap around") {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  CHECK(combined(ReduceOp::sum, largest, std::int64_t{1}) ==
        std::numeric_limits<std::int64_t>::min());
}
