#include "lockstep/kernels/product.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

/// A product that is masked with what was in its place.
template <class T>
void check_masked(std::size_t rows, std::size_t columns, std::size_t inner) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(inner);
  std::mt19937 random(2);
  const std::size_t step = kernels::padded_columns(columns);
  const Array<T> a = random_array<T>(rows * inner, random),
                 b = random_array<T>(inner * step, random);
  const Array<T> plain(rows * step, T(7)), held = random_array<T>(rows * step, random);
  held[0] = T(0.25);  // as much as the minimum
  held[rows * step - 1] = std::numeric_limits<T>::quiet_NaN();
  Array<T> masked(rows * step);
  std::copy_n(held.data(), rows * step, masked.data());
  const kernels::Steps steps{.a_row = inner, .a = 1, .b = {step}};
  kernels::multiply<T>({plain.data(), rows, columns, step}, a.data(), b.data(), inner, steps);
  kernels::multiply<T>({masked.data(), rows, columns, step}, a.data(), b.data(), inner, steps,
                       nullptr, {.minimum = T(0.25), .masks = true});
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows * step; ++i) {
    if (i % step >= columns)
      wrong += masked[i] != held[i] && !std::isnan(held[i]);
    else
      wrong += masked[i] != (held[i] <= T(0.25) ? T(0) : plain[i]);
  }
  CHECK(wrong == 0);
}

/// A product that is added to what is there: the sum of two is the product of both.
template <class T>
void check_onto(std::size_t rows, std::size_t columns, std::size_t inner, std::size_t first) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(inner);
  std::mt19937 random(2);
  const std::size_t step = kernels::padded_columns(columns);
  const Array<T> a = random_array<T>(rows * inner, random),
                 b = random_array<T>(inner * step, random);
  const Array<T> bias = random_array<T>(rows, random);
  const Array<T> whole(rows * step, T(7)), parts(rows * step, T(7));
  const kernels::Steps steps{.a_row = inner, .a = 1, .b = {step}};
  kernels::multiply<T>({whole.data(), rows, columns, step}, a.data(), b.data(), inner, steps,
                       bias.data());
  kernels::multiply<T>({parts.data(), rows, columns, step}, a.data(), b.data(), first, steps);
  kernels::multiply_onto<T>({parts.data(), rows, columns, step}, a.data() + first,
                            b.data() + first * step, inner - first, steps, bias.data());
  T worst = 0;
  for (std::size_t i = 0; i < rows * step; ++i)
    worst = std::max(worst, std::abs(whole[i] - parts[i]));
  CHECK(worst < 16 * static_cast<T>(inner) * std::numeric_limits<T>::epsilon());
}

/// A product of parts of larger matrices: A transposed, C with one column more.
template <class T>
void check_parts(std::size_t rows, std::size_t columns, std::size_t inner, bool adds) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(inner);
  std::mt19937 random(2);
  const std::size_t a_step = rows + 3, b_step = kernels::padded_columns(columns),
                    c_step = columns + 1;
  const Array<T> a = random_array<T>(inner * a_step, random),
                 b = random_array<T>(inner * b_step, random);
  const Array<T> before = random_array<T>(rows * c_step, random), c(rows * c_step);
  std::copy_n(before.data(), rows * c_step, c.data());
  kernels::multiply_parts<T>({c.data(), rows, columns, c_step}, a.data(), b.data(), inner,
                             {.a_row = 1, .a = a_step, .b = {b_step}}, adds);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < c_step; ++j) {
      double expected = adds || j == columns ? static_cast<double>(before[i * c_step + j]) : 0;
      for (std::size_t k = 0; k < inner && j < columns; ++k)
        expected += static_cast<double>(a[k * a_step + i]) * static_cast<double>(b[k * b_step + j]);
      wrong += !(std::abs(static_cast<double>(c[i * c_step + j]) - expected) < 1e-4);
    }
  CHECK(wrong == 0);
}

/// A product whose A is copied first has the bits of one whose A is not.
template <class T>
void check_packed(std::size_t rows, std::size_t columns, std::size_t inner) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(inner);
  std::mt19937 random(2);
  const std::size_t a_step = std::max(rows, kernels::inner_block + 1),
                    step = kernels::padded_columns(columns);
  const Array<T> a = random_array<T>(inner * a_step, random),
                 b = random_array<T>(inner * step, random), bias = random_array<T>(rows, random);
  const Array<T> whole(rows * step, T(7)), parts(rows * step, T(7));
  const kernels::Steps steps{.a_row = 1, .a = a_step, .b = {step}};
  kernels::multiply<T>({whole.data(), rows, columns, step}, a.data(), b.data(), inner, steps);
  kernels::multiply_parts<T>({parts.data(), rows, columns, step}, a.data(), b.data(), inner, steps);
  CHECK(std::equal(whole.data(), whole.data() + rows * step, parts.data()));
  kernels::multiply_onto<T>({whole.data(), rows, columns, step}, a.data(), b.data(), inner, steps,
                            bias.data());
  CHECK(std::abs(whole[0] - 2 * parts[0] - bias[0]) < T(1e-3));
}

}  // namespace

TEST_CASE("products: A of many columns") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t rows : {1u, 14u, 26u, 192u, 400u})
      for (const std::size_t columns : {256u, 290u})
        for (const std::size_t inner : {1u, 128u, 300u}) {
          check_packed<float>(rows, columns, inner);
          check_packed<double>(rows, columns, inner);
        }
  });
}

TEST_CASE("products: of parts of matrices") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t rows : {1u, 14u})
      for (const std::size_t columns : {16u, 20u, 130u})
        for (const std::size_t inner : {1u, 128u, 200u})
          for (const bool adds : {false, true}) {
            check_parts<float>(rows, columns, inner, adds);
            check_parts<double>(rows, columns, inner, adds);
          }
  });
}

TEST_CASE("products: one that is added to what is there") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t rows : {1u, 14u, 200u})
      for (const std::size_t columns : {16u, 20u, 64u})
        for (const std::size_t inner : {10u, 300u}) {
          check_onto<float>(rows, columns, inner, 3);
          check_onto<double>(rows, columns, inner, inner);
        }
  });
}

TEST_CASE("products: one that masks is 0 where nothing above the minimum was") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t rows : {1u, 6u, 14u, 200u})
      for (const std::size_t columns : {16u, 20u, 48u, 64u, 130u})
        for (const std::size_t inner : {1u, 10u, 128u}) {
          check_masked<float>(rows, columns, inner);
          check_masked<double>(rows, columns, inner);
        }
  });
}
