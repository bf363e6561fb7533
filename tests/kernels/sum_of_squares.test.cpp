#include "lockstep/kernels/sum_of_squares.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <span>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

using lockstep::kernels::sum_of_squares;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;

namespace {

template <class T>
void check_sums() {
  for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 160u, 1001u}) {
    CAPTURE(n);
    Array<T> values(n);
    double expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = static_cast<T>(i % 7) - T(2.5);
      expected += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    CHECK(sum_of_squares(std::span<const T>(values.data(), n)) == expected);  // exact in any order
  }
}

}  // namespace

TEST_CASE("sum_of_squares: any length") {
  for_each_instruction_set([] {
    check_sums<float>();
    check_sums<double>();
  });
}

TEST_CASE("sum_of_squares: floats whose squares are no floats, and what is not finite") {
  for_each_instruction_set([] {
    const float values[] = {3e30F, 4e30F};
    CHECK(sum_of_squares(std::span<const float>(values)) == doctest::Approx(25e60));
    const float infinite[] = {1, std::numeric_limits<float>::infinity()};
    CHECK(sum_of_squares(std::span<const float>(infinite)) ==
          std::numeric_limits<double>::infinity());
  });
}
