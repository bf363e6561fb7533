#include "lockstep/kernels/softmax.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <type_traits>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("softmax: against loops in double, with the sums that losses take", T, float,
                   double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    const kernels::GroupSize size{.groups = 2, .features = 5, .samples = 32, .stride = 48};
    const std::size_t all = size.groups * size.features * size.stride;
    const Array<T> x = random_array<T>(all, random), dy = random_array<T>(all, random);
    const Array<T> y(all, T(-7)), dx(all, T(-7)), largest(2 * 48, T(-7)), sum(2 * 48, T(-7));
    for (T& value : x) value *= T(20);
    kernels::dispatch(kernels::Softmax<T>{size, x.data(), y.data(), largest.data(), sum.data()});
    kernels::dispatch(kernels::SoftmaxGradient<T>{size, dy.data(), y.data(), dx.data()});
    const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-13;
    for (std::size_t group = 0; group < 2; ++group)
      for (std::size_t b = 0; b < 48; ++b) {
        const auto at = [&](std::size_t c) { return (group * 5 + c) * 48 + b; };
        if (b >= 32) {
          CHECK(y[at(2)] == T(-7));
          CHECK(sum[group * 48 + b] == T(-7));
          continue;
        }
        double most = -1e9, total = 0, product = 0;
        for (std::size_t c = 0; c < 5; ++c) most = std::max(most, static_cast<double>(x[at(c)]));
        for (std::size_t c = 0; c < 5; ++c) total += std::exp(static_cast<double>(x[at(c)]) - most);
        for (std::size_t c = 0; c < 5; ++c)
          product += static_cast<double>(y[at(c)]) * static_cast<double>(dy[at(c)]);
        CHECK(static_cast<double>(largest[group * 48 + b]) == most);
        CHECK(static_cast<double>(sum[group * 48 + b]) ==
              doctest::Approx(total).epsilon(tolerance));
        for (std::size_t c = 0; c < 5; ++c) {
          CHECK(static_cast<double>(y[at(c)]) ==
                doctest::Approx(std::exp(static_cast<double>(x[at(c)]) - most) / total)
                    .epsilon(tolerance));
          CHECK(std::abs(static_cast<double>(dx[at(c)]) -
                         static_cast<double>(y[at(c)]) *
                             (static_cast<double>(dy[at(c)]) - product)) < tolerance);
        }
      }
  });
}

TEST_CASE("softmax: results that are not wanted") {
  const Array<float> x(32, 1.0F), y(32, 0.0F), sum(16, 0.0F);
  const kernels::GroupSize size{.features = 2, .samples = 16, .stride = 16};
  kernels::dispatch(kernels::Softmax<float>{.size = size, .x = x.data(), .sum = sum.data()});
  CHECK(sum[15] == 2);
  kernels::dispatch(kernels::Softmax<float>{.size = size, .x = x.data(), .y = y.data()});
  CHECK(y[31] == 0.5F);
}

TEST_CASE_TEMPLATE("softmax by rows: the bits of softmax", T, float, double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    constexpr std::size_t features = 7, samples = 48, stride = 64;
    const Array<T> x = random_array<T>(features * stride, random);
    const Array<T> y(x.size(), T(7)), expected(x.size(), T(7)), factors(samples);
    const Array<T> largest(samples), sum(samples), expected_largest(samples), expected_sum(samples);
    kernels::dispatch(
        kernels::Softmax<T>{{.features = features, .samples = samples, .stride = stride},
                            x.data(),
                            expected.data(),
                            expected_largest.data(),
                            expected_sum.data()});
    kernels::SoftmaxRows<T> rows{features, samples,        stride,     x.data(),
                                 y.data(), largest.data(), sum.data(), factors.data()};
    kernels::dispatch(rows);
    CHECK(std::equal(y.begin(), y.end(), expected.begin()));
    CHECK(std::equal(largest.begin(), largest.end(), expected_largest.begin()));
    CHECK(std::equal(sum.begin(), sum.end(), expected_sum.begin()));
    rows.y = rows.factors = nullptr;
    std::fill(sum.begin(), sum.end(), T(7));
    kernels::dispatch(rows);
    CHECK(std::equal(sum.begin(), sum.end(), expected_sum.begin()));
  });
}
