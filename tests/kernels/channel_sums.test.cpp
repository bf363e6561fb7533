#include "lockstep/kernels/channel_sums.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE("channel sums: every sample of every pixel once, in blocks of pixels") {
  for_each_instruction_set([] {
    for (const std::size_t samples : {1u, 16u, 37u}) {
      CAPTURE(samples);
      const kernels::ChannelSize size{
          .pixels = 300, .channels = 35, .samples = samples, .stride = 48};
      const Array<float> x(size.pixels * size.channels * size.stride, 1.0F);
      std::vector<double> sums(size.channels), weighted(size.channels);
      std::size_t pixels = 0;
      kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
        using P = kernels::Pack<float, Isa::vector_bytes>;
        kernels::sum_channels<Isa, float>(
            size,
            [&](std::size_t channel)
                LOCKSTEP_KERNEL_LAMBDA { return P(static_cast<float>(channel)); },
            [&](const P& channel, std::size_t element, const auto& keep, P& first, P& second)
                LOCKSTEP_KERNEL_LAMBDA {
                  const P value = keep(P(static_cast<const float*>(x.data() + element)));
                  first += value;
                  second += value * channel;
                },
            [&](std::size_t channel, std::size_t before, std::size_t count, double first,
                double second) LOCKSTEP_KERNEL_LAMBDA {
              if (channel == 34) {
                CHECK(before == pixels);
                pixels += count;
              }
              sums[channel] += first;
              weighted[channel] += second;
            });
      });
      CHECK(pixels == size.pixels);
      for (std::size_t c = 0; c < size.channels; ++c) {
        CHECK(sums[c] == static_cast<double>(300 * samples));
        CHECK(weighted[c] == static_cast<double>(300 * samples * c));
      }
    }
  });
}

TEST_CASE("channel sums: pixels that stay in the cache together") {
  CHECK(kernels::pixels_in_cache<float>(
            {.pixels = 1000, .channels = 32, .samples = 64, .stride = 64}) == 32);
  CHECK(kernels::pixels_in_cache<float>({.pixels = 10, .channels = 1, .samples = 0, .stride = 0}) ==
        10);
  CHECK(kernels::pixels_in_cache<double>(
            {.pixels = 10, .channels = 4096, .samples = 64, .stride = 64}) == 1);
}

TEST_CASE("channel totals: the sum of each channel, without the padding") {
  for_each_instruction_set([] {
    const kernels::ChannelSize size{.pixels = 3, .channels = 2, .samples = 20, .stride = 32};
    const Array<double> x(size.pixels * size.channels * size.stride, 1e9);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (i % 32 < 20) x[i] = i / 32 % 2 == 0 ? 0.5 : 2;
    double totals[2];
    kernels::dispatch(kernels::ChannelTotals<double>{size, x.data(), totals});
    CHECK(totals[0] == 30);
    CHECK(totals[1] == 120);
  });
}

TEST_CASE("channel moments: far from zero no digits are lost, and padding does not count") {
  for_each_instruction_set([] {
    for (const std::size_t samples : {1u, 16u, 21u}) {
      CAPTURE(samples);
      const kernels::ChannelSize size{
          .pixels = 40, .channels = 3, .samples = samples, .stride = 32};
      std::mt19937 random(1);
      const Array<float> x = random_array<float>(40 * 3 * 32, random);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += i / 32 % 3 == 1 ? 4096.0F : 0.0F;
      double mean[3] = {7, 7, 7}, squares[3] = {7, 7, 7};
      kernels::dispatch(kernels::ChannelMoments<float>{size, x.data(), mean, squares});
      for (std::size_t c = 0; c < 3; ++c) {
        double sum = 0, spread = 0;
        const auto each = [&](const auto& f) {
          for (std::size_t pixel = 0; pixel < 40; ++pixel)
            for (std::size_t b = 0; b < samples; ++b)
              f(static_cast<double>(x[(pixel * 3 + c) * 32 + b]));
        };
        each([&](double value) { sum += value; });
        const double expected = sum / static_cast<double>(40 * samples);
        each([&](double value) { spread += (value - expected) * (value - expected); });
        CHECK(mean[c] == doctest::Approx(expected).epsilon(1e-6));
        CHECK(squares[c] == doctest::Approx(spread).epsilon(1e-4));
      }
    }
  });
}

TEST_CASE("channel moments: without samples they are zero") {
  double mean[2] = {7, 7}, squares[2] = {7, 7};
  kernels::dispatch(
      kernels::ChannelMoments<float>{{.pixels = 3, .channels = 2}, nullptr, mean, squares});
  CHECK(mean[1] == 0);
  CHECK(squares[1] == 0);
}
