#include "lockstep/kernels/rotary.hpp"

#include <doctest/doctest.h>

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

TEST_CASE("rotary table: against the C library, also far out") {
  constexpr std::size_t features = 8, positions = 5000;
  const Array<double> table(kernels::rotary_table_size(features, positions));
  kernels::make_rotary_table(10000, features, positions, table.data());
  double worst = 0;
  for (std::size_t f = 0; f < features / 2; ++f)
    for (std::size_t t = 0; t < positions; ++t) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(f) / features);
      const double* const row = table.data() + 2 * f * positions;
      worst = std::max({worst, std::abs(row[t] - std::cos(angle)),
                        std::abs(row[positions + t] - std::sin(angle))});
    }
  CHECK(worst < 1e-11);
}

TEST_CASE_TEMPLATE("rotary: against a loop in double, and back again", T, float, double) {
  for_each_instruction_set([] {
    for (const std::size_t positions : {1u, 15u, 16u, 21u}) {
      constexpr std::size_t heads = 2, features = 6, samples = 3;
      const std::size_t rows = samples * positions, stride = rows + 2;
      std::mt19937 random(1);
      const Array<T> before = random_array<T>(heads * features * stride, random), x(before.size()),
                     table(kernels::rotary_table_size(features, positions));
      std::copy(before.begin(), before.end(), x.begin());
      kernels::make_rotary_table<T>(500, features, positions, table.data());
      kernels::Rotary<T> rotary{.heads = heads,
                                .features = features,
                                .samples = samples,
                                .positions = positions,
                                .stride = stride,
                                .table = table.data(),
                                .x = x.data()};
      kernels::dispatch(rotary);
      const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i % stride, f = i / stride % features, pair = f % 3;
        double expected = static_cast<double>(before[i]);
        if (row < rows) {  // beyond, nothing is written
          const double angle = static_cast<double>(row % positions) *
                               std::pow(500.0, -2.0 * static_cast<double>(pair) / features);
          const double other = static_cast<double>(before[f < 3 ? i + 3 * stride : i - 3 * stride]);
          expected = expected * std::cos(angle) + (f < 3 ? -other : other) * std::sin(angle);
        }
        worst = std::max(worst, std::abs(static_cast<double>(x[i]) - expected));
      }
      CHECK(worst < tolerance);
      rotary.back = true;
      kernels::dispatch(rotary);
      worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(x[i] - before[i])));
      CHECK(worst < tolerance);
    }
  });
}
