#include "lockstep/kernels/channel_moments.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

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
