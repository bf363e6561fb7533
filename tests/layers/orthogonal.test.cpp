#include "lockstep/layers/orthogonal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/layers/initializers.hpp"

namespace ls = lockstep;

namespace {

std::vector<double> filled(std::vector<std::size_t> shape,
                           const ls::Initializer& initializer = ls::orthogonal) {
  const std::size_t size =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  std::vector<double> values(size);
  ls::RandomStream random{ls::RandomKey(5)};
  initializer.fill(random, std::span<const std::size_t>(shape), {}, std::span<double>(values));
  return values;
}

/// The largest distance of the products of all pairs of rows, or of columns, from those of
/// orthonormal ones.
double worst_product(const std::vector<double>& values, std::size_t rows, std::size_t columns) {
  const bool by_row = rows < columns;
  const std::size_t count = by_row ? rows : columns, length = by_row ? columns : rows;
  const auto at = [&](std::size_t vector, std::size_t i) {
    return by_row ? values[vector * columns + i] : values[i * columns + vector];
  };
  double worst = 0;
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
      worst = std::max(worst, std::abs(product - (a == b ? 1 : 0)));
    }
  return worst;
}

}  // namespace

TEST_CASE("orthogonal: columns are orthonormal, or rows if there are fewer of them") {
  for (const auto& [rows, columns] :
       {std::pair{1u, 1u}, {7u, 7u}, {50u, 20u}, {20u, 50u}, {1u, 9u}, {64u, 256u}})
    CHECK(worst_product(filled({rows, columns}), rows, columns) < 1e-13);
  CHECK(worst_product(filled({3, 2, 4, 5}), 24, 5) <
        1e-13);  // all dimensions but the last are rows
}

TEST_CASE("orthogonal: Q of a matrix of normal numbers whose R has a positive diagonal") {
  const std::size_t rows = 9, columns = 4;
  const std::vector<double> q = filled({rows, columns});
  ls::RandomStream random{ls::RandomKey(5)};
  std::vector<double> a(rows * columns);
  for (double& value : a) value = random.normal();
  for (std::size_t i = 0; i < columns; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      double r = 0;  // (Q^T A)[i][j]
      for (std::size_t row = 0; row < rows; ++row) r += q[row * columns + i] * a[row * columns + j];
      if (i == j) CHECK(r > 0);
      if (i > j) CHECK(std::abs(r) < 1e-13);
    }
}

TEST_CASE("orthogonal: gain, the transpose, and the signs are those of chance") {
  const std::vector<double> one = filled({6, 3}), two = filled({6, 3}, ls::Orthogonal{.gain = 2}),
                            turned = filled({3, 6});
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t column = 0; column < 3; ++column) {
      CHECK(two[row * 3 + column] == 2 * one[row * 3 + column]);
      CHECK(turned[column * 6 + row] == one[row * 3 + column]);
    }
  int positive = 0;
  for (const double value : filled({40, 40})) positive += value > 0 ? 1 : 0;
  CHECK(std::abs(positive - 800) < 120);
}

TEST_CASE("orthogonal: one dimension is refused") {
  CHECK_THROWS_WITH_AS(filled({5}),
                       doctest::Contains("orthogonal needs a variable of at least two dimensions"),
                       ls::ConfigurationError);
}
