#include "lockstep/kernels/group_normalization.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <type_traits>
#include <vector>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

template <class T>
void check(const kernels::ChannelSize& s, std::size_t groups, bool scaled) {
  CAPTURE(groups);
  CAPTURE(scaled);
  std::mt19937 random(1);
  const std::size_t elements = s.pixels * s.channels * s.stride, channels = s.channels / groups;
  const Array<T> x = random_array<T>(elements, random), dy = random_array<T>(elements, random);
  const Array<T> gamma = random_array<T>(s.channels, random),
                 beta = random_array<T>(s.channels, random);
  const Array<T> mean(groups * s.stride), inverse(groups * s.stride), y(elements), dx(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    x[i] += T(3);
    if (i % s.stride >= s.samples) dy[i] = 0;
  }
  const T* const factors = scaled ? gamma.data() : nullptr;
  std::vector<double> sums(s.channels), products(s.channels), expected_sums(s.channels),
      expected_products(s.channels);
  kernels::dispatch(kernels::GroupNormalization<T>{s, groups, x.data(), factors,
                                                   scaled ? beta.data() : nullptr, 1e-3,
                                                   mean.data(), inverse.data(), y.data()});
  kernels::dispatch(kernels::GroupNormalizationGradient<T>{
      s, groups, x.data(), mean.data(), inverse.data(), factors, dy.data(), dx.data(), sums.data(),
      products.data()});
  double worst = 0;
  const auto compare = [&](double got, double expected) {
    worst = std::max(worst, std::abs(got - expected) / (1 + std::abs(expected)));
  };
  const double count = static_cast<double>(s.pixels * channels);
  for (std::size_t group = 0; group < groups; ++group)
    for (std::size_t b = 0; b < s.samples; ++b) {
      const auto for_each_value = [&](auto f) {
        for (std::size_t pixel = 0; pixel < s.pixels; ++pixel)
          for (std::size_t c = group * channels; c < (group + 1) * channels; ++c)
            f(c, (pixel * s.channels + c) * s.stride + b);
      };
      const auto number = [](T value) { return static_cast<double>(value); };
      double average = 0, variance = 0, sum = 0, product = 0;
      for_each_value([&](std::size_t, std::size_t at) { average += number(x[at]) / count; });
      for_each_value([&](std::size_t, std::size_t at) {
        variance += std::pow(number(x[at]) - average, 2) / count;
      });
      const double factor = 1 / std::sqrt(variance + 1e-3);
      for_each_value([&](std::size_t c, std::size_t at) {
        const double normal = (number(x[at]) - average) * factor;
        compare(number(y[at]), scaled ? normal * number(gamma[c]) + number(beta[c]) : normal);
        const double g = number(dy[at]) * (scaled ? number(gamma[c]) : 1);
        sum += g / count;
        product += g * normal / count;
        expected_sums[c] += number(dy[at]);
        expected_products[c] += number(dy[at]) * normal;
      });
      for_each_value([&](std::size_t c, std::size_t at) {
        const double normal = (number(x[at]) - average) * factor;
        const double g = number(dy[at]) * (scaled ? number(gamma[c]) : 1);
        compare(number(dx[at]), factor * (g - sum - normal * product));
      });
    }
  for (std::size_t c = 0; c < s.channels; ++c) {
    compare(sums[c], expected_sums[c]);
    compare(products[c], expected_products[c]);
  }
  CHECK(worst < (std::is_same_v<T, float> ? 2e-5 : 1e-13));
  for (std::size_t i = 0; i < elements; ++i)
    if (i % s.stride >= s.samples)
      worst = std::max(worst, std::abs(static_cast<double>(dx[i])) * 1e9);
  CHECK(worst < 1);
}

}  // namespace

TEST_CASE("group normalisation kernels: against loops in double") {
  lockstep_test::for_each_instruction_set([] {
    for (const bool scaled : {true, false}) {
      check<float>({.pixels = 300, .channels = 6, .samples = 20, .stride = 32}, 3, scaled);
      check<double>({.pixels = 3, .channels = 70, .samples = 1, .stride = 16}, 1, scaled);
    }
    check<float>({.pixels = 5, .channels = 4, .samples = 80, .stride = 80}, 4, true);
  });
}
