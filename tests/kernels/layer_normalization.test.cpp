#include "lockstep/kernels/layer_normalization.hpp"

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

TEST_CASE("layer normalisation kernels: against loops in double, with gamma and without") {
  for_each_instruction_set([] {
    const kernels::ChannelSize size{.pixels = 2, .channels = 5, .samples = 20, .stride = 32};
    const std::size_t elements = 2 * 5 * 32;
    std::mt19937 random(1);
    const Array<float> x = random_array<float>(elements, random),
                       dy = random_array<float>(elements, random);
    const Array<float> gamma = random_array<float>(5, random),
                       beta = random_array<float>(5, random);
    for (std::size_t i = 0; i < elements; ++i)
      if (i % 32 >= 20) dy[i] = 0;
    for (const bool scaled : {true, false}) {
      CAPTURE(scaled);
      const float* const factors = scaled ? gamma.data() : nullptr;
      const Array<float> mean(64), inverse(64), y(elements), dx(elements);
      double sums[5], products[5], expected_sums[5] = {}, expected_products[5] = {};
      kernels::dispatch(kernels::LayerNormalization<float>{size, x.data(), factors,
                                                           scaled ? beta.data() : nullptr, 1e-3,
                                                           mean.data(), inverse.data(), y.data()});
      kernels::dispatch(kernels::LayerNormalizationSums<float>{
          size, x.data(), mean.data(), inverse.data(), dy.data(), sums, products});
      kernels::dispatch(kernels::LayerNormalizationInputGradient<float>{
          size, x.data(), mean.data(), inverse.data(), factors, dy.data(), dx.data()});
      double worst = 0;
      for (std::size_t pixel = 0; pixel < 2; ++pixel)
        for (std::size_t b = 0; b < 20; ++b) {
          double values[5], normal[5], g[5], average = 0, variance = 0, sum = 0, product = 0;
          for (std::size_t c = 0; c < 5; ++c)
            average += (values[c] = x[(pixel * 5 + c) * 32 + b]) / 5;
          for (const double value : values) variance += (value - average) * (value - average) / 5;
          for (std::size_t c = 0; c < 5; ++c) {
            const std::size_t at = (pixel * 5 + c) * 32 + b;
            normal[c] = (values[c] - average) / std::sqrt(variance + 1e-3);
            const double expected = scaled ? normal[c] * gamma[c] + beta[c] : normal[c];
            worst = std::max(worst, std::abs(y[at] - expected));
            g[c] = dy[at] * (scaled ? gamma[c] : 1.0F);
            sum += g[c] / 5;
            product += g[c] * normal[c] / 5;
            expected_sums[c] += dy[at];
            expected_products[c] += dy[at] * normal[c];
          }
          for (std::size_t c = 0; c < 5; ++c)
            worst = std::max(
                worst, std::abs(dx[(pixel * 5 + c) * 32 + b] -
                                (g[c] - sum - normal[c] * product) / std::sqrt(variance + 1e-3)));
        }
      CHECK(worst < 1e-5);
      for (std::size_t c = 0; c < 5; ++c) {
        CHECK(std::abs(sums[c] - expected_sums[c]) < 1e-4);
        CHECK(std::abs(products[c] - expected_products[c]) < 1e-4);
      }
    }
  });
}

TEST_CASE("layer normalisation kernels: about zero, against loops in double") {
  for_each_instruction_set([] {
    const kernels::ChannelSize size{.pixels = 2, .channels = 5, .samples = 20, .stride = 32};
    const std::size_t elements = 2 * 5 * 32;
    std::mt19937 random(1);
    const Array<double> x = random_array<double>(elements, random),
                        dy = random_array<double>(elements, random);
    const Array<double> gamma = random_array<double>(5, random);
    const Array<double> inverse(64), y(elements), dx(elements);
    for (std::size_t i = 0; i < elements; ++i)
      if (i % 32 >= 20) dy[i] = 0;
    double products[5], expected_products[5] = {};
    kernels::dispatch(kernels::LayerNormalization<double, false>{.size = size,
                                                                 .x = x.data(),
                                                                 .gamma = gamma.data(),
                                                                 .epsilon = 1e-3,
                                                                 .inverse = inverse.data(),
                                                                 .y = y.data()});
    kernels::dispatch(kernels::LayerNormalizationSums<double, false>{.size = size,
                                                                     .x = x.data(),
                                                                     .inverse = inverse.data(),
                                                                     .dy = dy.data(),
                                                                     .products = products});
    kernels::dispatch(
        kernels::LayerNormalizationInputGradient<double, false>{.size = size,
                                                                .x = x.data(),
                                                                .inverse = inverse.data(),
                                                                .gamma = gamma.data(),
                                                                .dy = dy.data(),
                                                                .dx = dx.data()});
    double worst = 0;
    for (std::size_t pixel = 0; pixel < 2; ++pixel)
      for (std::size_t b = 0; b < 20; ++b) {
        const auto at = [&](std::size_t c) { return (pixel * 5 + c) * 32 + b; };
        double square = 0, product = 0;
        for (std::size_t c = 0; c < 5; ++c) square += x[at(c)] * x[at(c)] / 5;
        const double factor = 1 / std::sqrt(square + 1e-3);
        for (std::size_t c = 0; c < 5; ++c) {
          worst = std::max(worst, std::abs(y[at(c)] - x[at(c)] * factor * gamma[c]));
          product += dy[at(c)] * gamma[c] * x[at(c)] * factor / 5;
          expected_products[c] += dy[at(c)] * x[at(c)] * factor;
        }
        for (std::size_t c = 0; c < 5; ++c)
          worst = std::max(worst, std::abs(dx[at(c)] - factor * (dy[at(c)] * gamma[c] -
                                                                 x[at(c)] * factor * product)));
      }
    for (std::size_t c = 0; c < 5; ++c)
      worst = std::max(worst, std::abs(products[c] - expected_products[c]));
    CHECK(worst < 1e-13);
  });
}
