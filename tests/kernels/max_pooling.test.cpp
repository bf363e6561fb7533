#include "lockstep/kernels/max_pooling.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

namespace {

/// Pools of 2 x 3 with stride 2 x 1 over an image of 5 x 4, padded by one column; `pixel` elements.
constexpr kernels::PoolingSize size{.height = 5,
                                    .width = 4,
                                    .out_height = 2,
                                    .out_width = 4,
                                    .pool_height = 2,
                                    .pool_width = 3,
                                    .stride_height = 2,
                                    .stride_width = 1,
                                    .pad_top = 0,
                                    .pad_left = 1,
                                    .pixel = 48};

/// Calls f(output pixel, input pixel) for each pixel of each window.
template <class F>
void for_each_tap(const F& f) {
  for (std::size_t out = 0; out < 8; ++out)
    for (std::size_t row = 0; row < 2; ++row)
      for (std::size_t column = 0; column < 3; ++column) {
        const std::size_t in_row = out / 4 * 2 + row,
                          in_column = out % 4 + column - 1;  // wraps below zero
        if (in_row < 5 && in_column < 4) f(out, in_row * 4 + in_column);
      }
}

}  // namespace

TEST_CASE("max pooling kernels: the first of equal maxima takes the gradient, NaN stays") {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    const Array<float> x = random_array<float>(20 * 48, random),
                       dy = random_array<float>(8 * 48, random);
    for (float& value : x) value = std::round(value * 3);  // many are equal
    const Array<float> y(8 * 48, 9.0F), dx(20 * 48, 9.0F);
    kernels::dispatch(kernels::MaxPooling<float>{size, x.data(), y.data()});
    kernels::dispatch(
        kernels::MaxPoolingGradient<float>{size, x.data(), y.data(), dy.data(), dx.data()});
    std::vector<float> largest(8 * 48, -9.0F), expected(20 * 48);
    std::vector<std::size_t> place(8 * 48);
    for_each_tap([&](std::size_t out, std::size_t in) {
      for (std::size_t i = 0; i < 48; ++i)
        if (x[in * 48 + i] > largest[out * 48 + i]) {
          largest[out * 48 + i] = x[in * 48 + i];
          place[out * 48 + i] = in * 48 + i;
        }
    });
    for (std::size_t i = 0; i < place.size(); ++i) expected[place[i]] += dy[i];
    CHECK(std::equal(largest.begin(), largest.end(), y.begin()));
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(dx[i] - expected[i])));
    CHECK(worst < 1e-6);

    x[5 * 48] =
        std::numeric_limits<float>::quiet_NaN();  // row 1, column 1: in the windows 0, 1 and 2
    kernels::dispatch(kernels::MaxPooling<float>{size, x.data(), y.data()});
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[2 * 48]));
    CHECK_FALSE(std::isnan(y[3 * 48]));
    CHECK_FALSE(std::isnan(y[1]));
  });
}
