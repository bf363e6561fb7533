#include "lockstep/kernels/pooling.hpp"

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

TEST_CASE("pooling: windows, cut off at the border") {
  const kernels::PoolingSize size{.height = 3,
                                  .width = 3,
                                  .out_height = 2,
                                  .out_width = 2,
                                  .pool_height = 2,
                                  .pool_width = 2,
                                  .stride_height = 2,
                                  .stride_width = 2,
                                  .pad_top = 1,
                                  .pixel = 16};
  std::vector<std::size_t> numbers;
  kernels::for_each_window(size, [&](const kernels::Window& window) {
    numbers.insert(numbers.end(), {window.out, window.first, window.rows, window.columns});
  });
  CHECK(numbers == std::vector<std::size_t>{0, 0, 1, 2, 1, 2, 1, 1, 2, 3, 2, 2, 3, 5, 2, 1});
}

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

TEST_CASE("average pooling kernels: the mean of what lies inside the image, and its gradient") {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    const Array<float> x = random_array<float>(20 * 48, random),
                       dy = random_array<float>(8 * 48, random);
    const Array<float> y(8 * 48, 9.0F), dx(20 * 48, 9.0F);
    kernels::dispatch(kernels::AveragePooling<float>{size, x.data(), y.data()});
    kernels::dispatch(kernels::AveragePoolingGradient<float>{size, dy.data(), dx.data()});
    std::vector<float> taps(8), mean(8 * 48), expected(20 * 48);
    for_each_tap([&](std::size_t out, std::size_t) { taps[out] += 1; });
    for_each_tap([&](std::size_t out, std::size_t in) {
      for (std::size_t i = 0; i < 48; ++i) {
        mean[out * 48 + i] += x[in * 48 + i] / taps[out];
        expected[in * 48 + i] += dy[out * 48 + i] / taps[out];
      }
    });
    CHECK(taps[0] == 4);
    CHECK(taps[1] == 6);
    double worst = 0;
    for (std::size_t i = 0; i < mean.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(y[i] - mean[i])));
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(dx[i] - expected[i])));
    CHECK(worst < 1e-5);
  });
}

TEST_CASE("average pooling kernels: sums instead of means") {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    const Array<double> x = random_array<double>(20 * 48, random),
                        dy = random_array<double>(8 * 48, random);
    const Array<double> y(8 * 48), dx(20 * 48);
    kernels::dispatch(kernels::AveragePooling<double, false>{size, x.data(), y.data()});
    kernels::dispatch(kernels::AveragePoolingGradient<double, false>{size, dy.data(), dx.data()});
    std::vector<double> sums(8 * 48), expected(20 * 48);
    for_each_tap([&](std::size_t out, std::size_t in) {
      for (std::size_t i = 0; i < 48; ++i) {
        sums[out * 48 + i] += x[in * 48 + i];
        expected[in * 48 + i] += dy[out * 48 + i];
      }
    });
    double worst = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::abs(y[i] - sums[i]));
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, std::abs(dx[i] - expected[i]));
    CHECK(worst < 1e-14);
  });
}

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
