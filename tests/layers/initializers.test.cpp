#include "lockstep/layers/initializers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/layers/dense.hpp"

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

namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};

Moments moments(ls::Initializer initializer, ls::Fans fans) {
  ls::RandomStream random{ls::RandomKey(7)};
  constexpr int n = 40000;
  double sum = 0, squares = 0, largest = 0;
  for (int i = 0; i < n; ++i) {
    const double value = initializer(random, fans);
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n)), largest};
}

void check_uniform(ls::Initializer initializer, ls::Fans fans, double limit) {
  const Moments m = moments(initializer, fans);
  CHECK(std::abs(m.mean) < 0.02 * limit);
  CHECK(m.deviation == doctest::Approx(limit / std::sqrt(3.0)).epsilon(0.02));
  CHECK(m.largest <= limit);
  CHECK(m.largest > 0.999 * limit);
}

void check_truncated_normal(ls::Initializer initializer, ls::Fans fans, double deviation) {
  const Moments m = moments(initializer, fans);
  CHECK(std::abs(m.mean) < 0.03 * deviation);
  CHECK(m.deviation == doctest::Approx(deviation).epsilon(0.02));
  CHECK(m.largest <= 2 * deviation / 0.8796256610342398);
}

}  // namespace

TEST_CASE("initializers: Keras's ranges and deviations") {
  const ls::Fans fans{.in = 9, .out = 288};
  check_uniform(ls::glorot_uniform, fans, std::sqrt(6.0 / 297));
  check_uniform(ls::he_uniform, fans, std::sqrt(6.0 / 9));
  check_uniform(ls::lecun_uniform, fans, std::sqrt(3.0 / 9));
  check_uniform(ls::random_uniform, fans, 0.05);
  check_truncated_normal(ls::glorot_normal, fans, std::sqrt(2.0 / 297));
  check_truncated_normal(ls::he_normal, fans, std::sqrt(2.0 / 9));
  check_truncated_normal(ls::lecun_normal, fans, std::sqrt(1.0 / 9));
  CHECK(moments(ls::random_normal, fans).deviation == doctest::Approx(0.05).epsilon(0.02));
  CHECK(moments(ls::zeros, fans).largest == 0);
  CHECK(moments(ls::ones, fans).mean == 1);
}

TEST_CASE("initializers: with numbers") {
  const ls::Fans fans{.in = 9, .out = 288};
  check_uniform(ls::RandomUniform{-0.5, 0.5}, fans, 0.5);
  check_uniform(
      ls::VarianceScaling{
          .scale = 4, .mode = ls::FanMode::fan_out, .distribution = ls::Distribution::uniform},
      fans, std::sqrt(12.0 / 288));
  check_truncated_normal(ls::VarianceScaling{.scale = 3, .mode = ls::FanMode::fan_avg}, fans,
                         std::sqrt(6.0 / 297));
  const Moments untruncated = moments(
      ls::VarianceScaling{.scale = 3, .distribution = ls::Distribution::untruncated_normal}, fans);
  CHECK(untruncated.deviation == doctest::Approx(std::sqrt(3.0 / 9)).epsilon(0.02));
  CHECK(untruncated.largest > 3 * std::sqrt(3.0 / 9));
  const Moments shifted = moments(ls::RandomNormal{.mean = 2, .stddev = 0.25}, fans);
  CHECK(shifted.mean == doctest::Approx(2).epsilon(0.01));
  CHECK(shifted.deviation == doctest::Approx(0.25).epsilon(0.02));
  const Moments cut = moments(ls::TruncatedNormal{.mean = 1, .stddev = 0.25}, fans);
  CHECK(cut.mean == doctest::Approx(1).epsilon(0.01));
  CHECK(cut.deviation == doctest::Approx(0.25 * 0.8796256610342398).epsilon(0.02));
  CHECK(cut.largest <= 1.5);
  CHECK(cut.largest > 1.49);
  CHECK(moments(ls::Constant{0.75}, fans).mean == 0.75);
}

TEST_CASE("initializers: the numbers of earlier versions, bit for bit") {
  const ls::Fans fans{.in = 9, .out = 288};
  ls::RandomStream a{ls::RandomKey(7)}, b{ls::RandomKey(7)};
  const double limit = std::sqrt(3.0 / 148.5);
  for (int i = 0; i < 9; ++i) CHECK(ls::glorot_uniform(a, fans) == b.uniform(-limit, limit));
  for (int i = 0; i < 9; ++i)
    CHECK(ls::he_uniform(a, fans) == b.uniform(-std::sqrt(6.0 / 9), std::sqrt(6.0 / 9)));
  const auto truncated = [&] {
    double value = b.normal();
    while (std::abs(value) > 2.0) value = b.normal();
    return value;
  };
  for (int i = 0; i < 99; ++i)
    CHECK(ls::he_normal(a, fans) == truncated() * std::sqrt(2.0 / 9) / 0.87962566103423978);
  for (int i = 0; i < 9; ++i) CHECK(ls::random_normal(a, fans) == 0.05 * b.normal());
}

TEST_CASE("identity: ones on the diagonal of two dimensions, others are refused") {
  ls::RandomStream random{ls::RandomKey(1)};
  std::vector<float> values(6);
  const std::size_t shape[] = {2, 3};
  ls::Initializer(ls::IdentityMatrix{.gain = 4}).fill(random, shape, {}, std::span<float>(values));
  CHECK(values == std::vector<float>{4, 0, 0, 0, 4, 0});
  const std::size_t cube[] = {1, 2, 3};
  CHECK_THROWS_WITH_AS(
      ls::identity.fill(random, cube, {}, std::span<float>(values)),
      doctest::Contains("identity needs a variable of two dimensions, and this one has 3"),
      ls::ConfigurationError);
}

namespace {

constexpr ls::Initializer own = [](ls::RandomStream&, ls::Fans) { return 3.0; };

template <ls::DenseOptions Options>
constexpr ls::Initializer of_kernel =
    ls::Dense<2, ls::Linear, Options>::template variables<ls::Shape<3>>[0].initializer;

static_assert(of_kernel<ls::DenseOptions{.kernel_initializer = own}> == own);
static_assert(of_kernel<ls::DenseOptions{.kernel_initializer = ls::orthogonal}> == ls::orthogonal);
static_assert(of_kernel<ls::DenseOptions{.kernel_initializer = ls::RandomNormal{.stddev = 0.02}}> ==
              ls::RandomNormal{.stddev = 0.02});
static_assert(of_kernel<ls::DenseOptions{.kernel_initializer = ls::VarianceScaling{.scale = 2}}> ==
              ls::he_normal);
static_assert(of_kernel<ls::DenseOptions{.kernel_initializer = ls::Orthogonal{.gain = 2}}> !=
              ls::orthogonal);

}  // namespace
