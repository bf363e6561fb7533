#include "lockstep/kernels/time_major.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

template <class T>
void check(std::size_t samples, std::size_t steps, bool reverse, bool scaled) {
  CAPTURE(samples);
  CAPTURE(steps);
  CAPTURE(reverse);
  CAPTURE(scaled);
  std::mt19937 random(3);
  constexpr std::size_t features = 3;
  const std::size_t batch = kernels::padded_columns(samples);
  kernels::TimeMajor<T> size{.features = features,
                             .samples = samples,
                             .steps = steps,
                             .token_stride = samples * steps + 2,
                             .time_stride = batch * steps + 16,
                             .reverse = reverse};
  const Array<T> of_features = random_array<T>(features * batch, random);
  const Array<T> of_steps = random_array<T>(steps * batch, random);
  if (scaled) size.of_features = of_features.data(), size.of_steps = of_steps.data();
  const auto factor = [&](std::size_t f, std::size_t time, std::size_t s) {
    return scaled ? of_features[f * batch + s] * of_steps[time * batch + s] : T(1);
  };
  const std::size_t last = (features - 1);
  const Array<T> tokens = random_array<T>(last * size.token_stride + samples * steps, random);
  const Array<T> times(last * size.time_stride + batch * steps, T(7));
  kernels::to_time_major<T>(size, tokens.data(), times.data());
  std::size_t wrong = 0;
  const auto differ = [](T a, T b) { return std::abs(a - b) > T(1e-6); };
  for (std::size_t f = 0; f < features; ++f)
    for (std::size_t t = 0; t < steps; ++t) {
      const std::size_t time = reverse ? steps - 1 - t : t;
      for (std::size_t s = 0; s < batch; ++s) {
        const T expected =
            s < samples ? tokens[f * size.token_stride + s * steps + t] * factor(f, time, s) : T(0);
        wrong += differ(times[f * size.time_stride + time * batch + s], expected);
      }
    }
  CHECK(wrong == 0);

  for (const kernels::Merge merge :
       {kernels::Merge::replace, kernels::Merge::add, kernels::Merge::multiply}) {
    const Array<T> back(tokens.size(), T(2));
    kernels::from_time_major<T>(size, times.data(), back.data(), merge);
    for (std::size_t f = 0; f < features; ++f)
      for (std::size_t i = 0; i < std::min(size.token_stride, back.size() - f * size.token_stride);
           ++i) {
        T expected = 2;
        if (i < samples * steps) {
          const std::size_t s = i / steps, time = reverse ? steps - 1 - i % steps : i % steps;
          const T value = times[f * size.time_stride + time * batch + s] * factor(f, time, s);
          expected = merge == kernels::Merge::replace ? value
                     : merge == kernels::Merge::add   ? 2 + value
                                                      : 2 * value;
        }
        wrong += differ(back[f * size.token_stride + i], expected);
      }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("time-major layout: there and back, for awkward sizes, with factors", T, float,
                   double) {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t samples : {1u, 3u, 16u, 17u})
      for (const std::size_t steps : {1u, 5u, 16u, 19u})
        for (const bool reverse : {false, true})
          for (const bool scaled : {false, true}) check<T>(samples, steps, reverse, scaled);
  });
}
