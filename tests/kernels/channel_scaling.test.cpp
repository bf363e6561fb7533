#include "lockstep/kernels/channel_sums.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

namespace {

constexpr kernels::ChannelSize size{.pixels = 3, .channels = 2, .samples = 21, .stride = 32};
constexpr std::size_t elements = 3 * 2 * 32;

}  // namespace

TEST_CASE_TEMPLATE("channel scaling: forward, gradients and padding against loops", T, float,
                   double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    const Array<T> x = random_array<T>(elements, random), dy = random_array<T>(elements, random);
    const Array<T> mean = random_array<T>(2, random), scale = random_array<T>(2, random);
    const Array<T> offset = random_array<T>(2, random), slope = random_array<T>(2, random);
    for (std::size_t i = 0; i < elements; ++i)
      if (i % 32 >= 21) dy[i] = T(0);
    const Array<T> y(elements, T(7)), dx(elements, T(7));
    const kernels::ScaledDelta<T> delta{x.data(),      mean.data(), scale.data(),
                                        offset.data(), T(0),        dy.data()};
    double sums[2], products[2], expected_sums[2] = {}, expected_products[2] = {};
    kernels::dispatch(kernels::ScaleChannels<T>{size, x.data(), mean.data(), scale.data(),
                                                offset.data(), T(0), y.data()});
    // With something added to it:
    const Array<T> sum(elements, T(7));
    kernels::dispatch(kernels::ScaleChannels<T>{size, x.data(), mean.data(), scale.data(),
                                                offset.data(), T(0), sum.data(), dy.data()});
    kernels::dispatch(kernels::ChannelGradients<T>{size, delta, sums, products});
    kernels::dispatch(
        kernels::ChannelInputGradient<T>{size, delta, slope.data(), mean.data(), dx.data()});
    double worst = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      const std::size_t c = i / 32 % 2;
      const double deviation = static_cast<double>(x[i]) - static_cast<double>(mean[c]);
      const double value =
          deviation * static_cast<double>(scale[c]) + static_cast<double>(offset[c]);
      const double gradient = value <= 0 ? 0 : static_cast<double>(dy[i]);
      if (i % 32 >= 21) {
        worst =
            std::max({worst, std::abs(static_cast<double>(y[i])),
                      std::abs(static_cast<double>(sum[i])), std::abs(static_cast<double>(dx[i]))});
        continue;
      }
      expected_sums[c] += gradient;
      expected_products[c] += gradient * deviation;
      worst = std::max(
          {worst, std::abs(static_cast<double>(y[i]) - std::max(value, 0.0)),
           std::abs(static_cast<double>(sum[i]) -
                    std::max(value + static_cast<double>(dy[i]), 0.0)),
           std::abs(static_cast<double>(dx[i]) - gradient * static_cast<double>(scale[c]) -
                    deviation * static_cast<double>(slope[c]) - static_cast<double>(mean[c]))});
    }
    CHECK(worst < 1e-5);
    for (std::size_t c = 0; c < 2; ++c) {
      CHECK(sums[c] == doctest::Approx(expected_sums[c]).epsilon(1e-4));
      CHECK(products[c] == doctest::Approx(expected_products[c]).epsilon(1e-4));
    }
  });
}
