#include "lockstep/kernels/recurrence.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

TEST_CASE("recurrence: where the columns of a step are, in both directions") {
  constexpr kernels::RecurrenceSize forward{.units = 1, .samples = 17, .steps = 4};
  static_assert(forward.batch() == 32 && forward.columns() == 128);
  static_assert(forward.stride() % 32 == 16 && forward.stride() >= 5 * 32);
  static_assert(forward.column(1) == 32 && forward.before(1) == 32 && forward.after(1) == 64);
  constexpr kernels::RecurrenceSize backward{
      .units = 1, .samples = 17, .steps = 4, .reverse = true};
  static_assert(backward.column(1) == 64 && backward.before(1) == 96 && backward.after(1) == 64);
  static_assert(forward.after(0) == forward.before(1) && backward.after(0) == backward.before(1));
  constexpr kernels::RecurrenceSize empty{.units = 1, .samples = 0, .steps = 4};
  static_assert(empty.columns() == 0 && empty.stride() == 16);
}

TEST_CASE_TEMPLATE("recurrence: products and sums of deltas, for part of them too", T, float,
                   double) {
  lockstep_test::for_each_instruction_set([] {
    std::mt19937 random(5);
    for (const std::size_t columns : {0u, 16u, 256u, 272u, 528u}) {
      CAPTURE(columns);
      constexpr std::size_t count = 70, rows = 3, part = 20;
      const std::size_t stride = columns + 16;
      const Array<T> deltas = random_array<T>(count * stride, random),
                     a = random_array<T>(rows * stride, random);
      const Array<T> all(rows * count, T(7)), some(rows * 100, T(7)), sums(count, T(7));
      const Array<T> scratch(kernels::delta_products_scratch(count));
      const kernels::DeltaProduct<T> products[] = {{a.data(), rows, count, all.data(), count},
                                                   {a.data(), rows, part, some.data(), 100}};
      kernels::delta_products<T>(deltas.data(), count, columns, stride, products, sums.data(),
                                 scratch.data());
      double worst = 0;
      const auto add = [&](T got, double expected) {
        worst = std::max(worst, std::abs(static_cast<double>(got) - expected));
      };
      for (std::size_t j = 0; j < count; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < columns; ++k)
          sum += static_cast<double>(deltas[j * stride + k]);
        add(sums[j], sum);
        for (std::size_t i = 0; i < rows; ++i) {
          double product = 0;
          for (std::size_t k = 0; k < columns; ++k)
            product += static_cast<double>(a[i * stride + k]) *
                       static_cast<double>(deltas[j * stride + k]);
          add(all[i * count + j], product);
          add(some[i * 100 + j], j < part ? product : 7);
        }
      }
      CHECK(worst < (sizeof(T) == 4 ? 1e-4 : 1e-12));
    }
  });
}
