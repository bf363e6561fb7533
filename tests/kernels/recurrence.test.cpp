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
  static_assert(forward.state_columns() == 5 * 32);
  static_assert(forward.column(1) == 32 && forward.before(1) == 32 && forward.after(1) == 64);
  constexpr kernels::RecurrenceSize backward{
      .units = 1, .samples = 17, .steps = 4, .reverse = true};
  static_assert(backward.column(1) == 64 && backward.before(1) == 96 && backward.after(1) == 64);
  static_assert(forward.after(0) == forward.before(1) && backward.after(0) == backward.before(1));
  constexpr kernels::RecurrenceSize empty{.units = 1, .samples = 0, .steps = 4};
  static_assert(empty.columns() == 0 && empty.state_columns() == 0);
}

TEST_CASE_TEMPLATE("recurrence: products and sums of deltas, for part of them too", T, float,
                   double) {
  lockstep_test::for_each_instruction_set([] {
    std::mt19937 random(5);
    struct Case {
      std::size_t steps, batch;
    };
    for (const Case& each :
         {Case{3, 0}, {1, 16}, {16, 16}, {17, 16}, {11, 48}, {2, 272}, {3, 128}}) {
      const std::size_t steps = each.steps, batch = each.batch;
      CAPTURE(steps);
      CAPTURE(batch);
      constexpr std::size_t features = 75, count = 70, rows = 3, part = 20;
      const Array<T> deltas = random_array<T>(steps * features * batch, random),
                     a = random_array<T>(steps * rows * batch, random);
      const Array<T> all(rows * count, T(7)), some(rows * 100, T(7)), sums(count, T(7));
      const Array<T> scratch(kernels::delta_products_scratch(count));
      const kernels::DeltaProduct<T> products[] = {{a.data(), rows, count, all.data(), count},
                                                   {a.data(), rows, part, some.data(), 100}};
      kernels::delta_products<T>({deltas.data(), count, features, steps, batch}, products,
                                 sums.data(), scratch.data());
      double worst = 0;
      const auto add = [&](T got, double expected) {
        worst = std::max(worst, std::abs(static_cast<double>(got) - expected));
      };
      for (std::size_t j = 0; j < count; ++j) {
        double sum = 0;
        const auto of = [&](const Array<T>& array, std::size_t rows_of, std::size_t row,
                            std::size_t k) {
          return static_cast<double>(array[(k / batch * rows_of + row) * batch + k % batch]);
        };
        for (std::size_t k = 0; k < steps * batch; ++k) sum += of(deltas, features, j, k);
        add(sums[j], sum);
        for (std::size_t i = 0; i < rows; ++i) {
          double product = 0;
          for (std::size_t k = 0; k < steps * batch; ++k)
            product += of(a, rows, i, k) * of(deltas, features, j, k);
          add(all[i * count + j], product);
          add(some[i * 100 + j], j < part ? product : 7);
        }
      }
      CHECK(worst < (sizeof(T) == 4 ? 1e-4 : 1e-12));
    }
  });
}
