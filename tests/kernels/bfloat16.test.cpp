#include "lockstep/kernels/bfloat16.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lockstep/core/half.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

float rounded(float value) {
  float result = 0;
  kernels::round_to_bfloat16(1, &value, &result);
  return result;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

Array<float> rounded(const Array<float>& values) {
  Array<float> result(values.size());
  kernels::round_to_bfloat16(values.size(), values.data(), result.data());
  return result;
}

/// A product of the size that is asked for, in one of the layouts of A that layers have.
struct Product {
  std::size_t rows, columns, inner;
  bool a_in_lines = false;  ///< a row of A is one element from the next
  bool adds = false, has_bias = false;
  float minimum = -std::numeric_limits<float>::infinity();

  [[nodiscard]] std::size_t step() const { return kernels::padded_columns(columns); }
  [[nodiscard]] kernels::Steps steps() const {
    return a_in_lines ? kernels::Steps{.a_row = 1, .a = rows, .b = {step()}}
                      : kernels::Steps{.a_row = inner, .a = 1, .b = {step()}};
  }
};

constexpr Product products[] = {
    {1, 1, 1},
    {6, 64, 2},
    {7, 65, 3, true},
    {13, 33, 255, false, true},
    {24, 48, 256, true, false, true},
    {5, 17, 257, false, false, true, 0},
    {200, 130, 300, true, true},
    {193, 80, 513, false, false, true, -1},
    {3, 16, 0, false, false, true},
};

struct Operands {
  Array<float> a, b, bias, c;
};
Operands operands_of(const Product& p) {
  std::mt19937 random(5);
  return {random_array<float>(p.rows * p.inner, random),
          random_array<float>(p.inner * p.step(), random), random_array<float>(p.rows, random),
          random_array<float>(p.rows * p.step(), random)};
}

/// C after the product, whose columns beyond p.columns keep what was there.
std::vector<float> product_of(const Product& p, const Operands& o) {
  Array<float> c(o.c.size());
  std::copy(o.c.begin(), o.c.end(), c.begin());
  kernels::multiply_bfloat16({c.data(), p.rows, p.columns, p.step()}, o.a.data(), o.b.data(),
                             p.inner, p.steps(), {p.adds, p.has_bias ? o.bias.data() : nullptr},
                             {p.minimum});
  return {c.begin(), c.end()};
}

}  // namespace

TEST_CASE("bfloat16: every number of 16 bits is itself") {
  lockstep_test::for_each_instruction_set([] {
    Array<float> all(1 << 16);
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = std::bit_cast<float>(i << 16);
    const Array<float> result = rounded(all);
    std::size_t wrong = 0;
    for (std::uint32_t i = 0; i < all.size(); ++i)
      wrong += std::isnan(all[i]) ? !std::isnan(result[i]) : bits(result[i]) != i << 16;
    CHECK(wrong == 0);
  });
}

TEST_CASE("bfloat16: between two numbers the nearer one, and in the middle the even one") {
  lockstep_test::for_each_instruction_set([] {
    // (As bit patterns, so that carries into the exponent and infinity are among them.)
    std::size_t wrong = 0;
    Array<float> values(3 * 0x7F80), below(values.size());
    for (std::uint32_t high = 0; high < 0x7F80; ++high) {
      const std::uint32_t patterns[] = {high << 16 | 0x7FFF, high << 16 | 0x8000,
                                        high << 16 | 0x8001};
      for (std::size_t i = 0; i < 3; ++i) values[3 * high + i] = std::bit_cast<float>(patterns[i]);
    }
    const Array<float> result = rounded(values);
    for (std::uint32_t high = 0; high < 0x7F80; ++high) {
      const std::uint32_t expected[] = {high, high + high % 2, high + 1};
      for (std::size_t i = 0; i < 3; ++i) wrong += bits(result[3 * high + i]) != expected[i] << 16;
    }
    CHECK(wrong == 0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = -values[i];
    const Array<float> negative = rounded(values);
    for (std::size_t i = 0; i < values.size(); ++i)
      wrong += bits(negative[i]) != (bits(result[i]) ^ 0x8000'0000);
    CHECK(wrong == 0);
  });
}

TEST_CASE("bfloat16: packed to 16 bits and back, each number is what rounding makes of it") {
  std::vector<float> numbers{0.0F, -0.0F, 1 + 0x1p-8F, -1 - 0x3p-8F, 0x1p-140F, 3e38F};
  numbers.push_back(std::numeric_limits<float>::infinity());
  while (numbers.size() < 48) numbers.push_back(static_cast<float>(numbers.size()) / 7 - 3);
  std::vector<float> expected(48), packed(25, 5.0F), back(49, 5.0F);
  lockstep_test::for_each_instruction_set([&] {
    kernels::round_to_bfloat16(48, numbers.data(), expected.data());
    kernels::pack_bfloat16(48, numbers.data(), packed.data());
    kernels::unpack_bfloat16(48, packed.data(), back.data());
    CHECK(std::memcmp(back.data(), expected.data(), 48 * sizeof(float)) == 0);
    CHECK(packed[24] == 5.0F);
    CHECK(back[48] == 5.0F);
  });
}

TEST_CASE("bfloat16: edges") {
  lockstep_test::for_each_instruction_set([] {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    CHECK(rounded(infinity) == infinity);
    CHECK(rounded(-infinity) == -infinity);
    CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
    CHECK(std::isnan(rounded(std::bit_cast<float>(0x7F80'0001U))));  // whose upper half is infinity
    CHECK(rounded(std::numeric_limits<float>::max()) == infinity);
    CHECK(bits(rounded(-0.0F)) == 0x8000'0000);
    CHECK(rounded(1 + 0x1p-8F) == 1);
    CHECK(rounded(1 + 3 * 0x1p-8F) == 1 + 0x1p-6F);
    CHECK(rounded(0x1p-133F) == 0x1p-133F);  // the smallest that there is
    CHECK(rounded(0x1p-134F) == 0);
  });
}

TEST_CASE("bfloat16 products: those of rounded numbers, for each layout and awkward sizes") {
  lockstep_test::for_each_bfloat16_instruction_set([] {
    for (const Product& p : products) {
      CAPTURE(p.rows);
      CAPTURE(p.columns);
      CAPTURE(p.inner);
      const Operands o = operands_of(p);
      const std::vector<float> c = product_of(p, o);
      const Array<float> a = rounded(o.a), b = rounded(o.b);
      double worst = 0;
      std::size_t changed = 0;
      for (std::size_t row = 0; row < p.rows; ++row)
        for (std::size_t column = 0; column < p.step(); ++column) {
          const std::size_t place = row * p.step() + column;
          if (column >= p.columns) {
            changed += c[place] != o.c[place];
            continue;
          }
          double sum = p.adds ? o.c[place] : p.has_bias ? o.bias[row] : 0;
          for (std::size_t k = 0; k < p.inner; ++k)
            sum += static_cast<double>(a[row * p.steps().a_row + k * p.steps().a]) *
                   static_cast<double>(b[k * p.step() + column]);
          worst = std::max(worst, std::abs(std::max<double>(sum, p.minimum) - c[place]));
        }
      CHECK(worst <= 1e-6 * static_cast<double>(p.inner + 1));
      CHECK(changed == 0);
    }
  });
}

TEST_CASE("bfloat16 products: all instruction sets give equal bits") {
  for (const Product& p : products) {
    CAPTURE(p.rows);
    CAPTURE(p.columns);
    CAPTURE(p.inner);
    const Operands o = operands_of(p);
    std::vector<std::vector<float>> results;
    lockstep_test::for_each_bfloat16_instruction_set([&] { results.push_back(product_of(p, o)); });
    for (const std::vector<float>& result : results) CHECK(result == results[0]);
  }
}

TEST_CASE("bfloat16 products: a number below 2^-126 is lost at most") {
  lockstep_test::for_each_bfloat16_instruction_set([] {
    constexpr float small = 0x1p-130F;
    const Array<float> a(2 * 6, small), b(2 * 16, 1.0F), c(6 * 16);
    kernels::multiply_bfloat16({c.data(), 6, 16, 16}, a.data(), b.data(), 2,
                               {.a_row = 2, .a = 1, .b = {16}}, {}, {});
    // (The bound of the numerics contract.)
    for (const float value : c) CHECK(std::abs(value - 2 * small) < 2 * 0x1p-126F * (1 + 1));
  });
}

TEST_CASE("bfloat16 products: a sum is that of float, not of bfloat16") {
  lockstep_test::for_each_bfloat16_instruction_set([] {
    constexpr std::size_t inner = 4096;
    const Array<float> a(inner, 1.0F), b(inner * 16, 1.0F), c(16);
    kernels::multiply_bfloat16({c.data(), 1, 16, 16}, a.data(), b.data(), inner,
                               {.a_row = inner, .a = 1, .b = {16}}, {}, {});
    for (const float value : c) CHECK(value == inner);
  });
}

TEST_CASE("bfloat16 products: the gradient of a maximum") {
  lockstep_test::for_each_bfloat16_instruction_set([] {
    const Array<float> a(2 * 2, 1.0F), b(2 * 16, 1.0F), c(2 * 16, 3.0F);
    c[5] = 0;
    c[17] = -1;
    kernels::multiply_bfloat16({c.data(), 2, 16, 16}, a.data(), b.data(), 2,
                               {.a_row = 2, .a = 1, .b = {16}}, {}, {.minimum = 0, .masks = true});
    for (std::size_t i = 0; i < 32; ++i) CHECK(c[i] == (i == 5 || i == 17 ? 0 : 2));
  });
}

TEST_CASE("bfloat16 products: in a scope, products of float are these") {
  std::mt19937 random(3);
  const Product p{20, 32, 40};
  const Operands o = operands_of(p);
  const auto multiply = [&] {
    const Array<float> c(p.rows * p.step());
    kernels::multiply<float>({c.data(), p.rows, p.columns, p.step()}, o.a.data(), o.b.data(),
                             p.inner, p.steps());
    return std::vector<float>(c.begin(), c.end());
  };
  const auto parts = [&] {
    const Array<float> c(p.rows * p.step());
    kernels::multiply_parts<float>({c.data(), p.rows, p.columns, p.step()}, o.a.data(), o.b.data(),
                                   p.inner, p.steps());
    return std::vector<float>(c.begin(), c.end());
  };
  const std::vector<float> exact = multiply(), coarse = product_of(p, o);
  CHECK(exact != coarse);
  {
    const kernels::BFloat16Products scope;
    CHECK(multiply() == coarse);
    CHECK(parts() == coarse);
    {
      const kernels::Float32Products inner;
      CHECK(multiply() == exact);
    }
    CHECK(multiply() == coarse);
  }
  CHECK(multiply() == exact);
}

TEST_CASE("bfloat16: gradients of a dense layer have the same bits on all levels") {
  struct Case {
    kernels::DenseSize size;
    bool has_bias, is_maximum;
  };
  constexpr Case cases[] = {{{3, 1, 16}, true, false},   {{7, 65, 48}, false, true},
                            {{20, 48, 272}, true, true}, {{577, 16, 256}, false, false},
                            {{5, 130, 528}, true, true}, {{4, 64, 0}, true, false}};
  for (const Case& one : cases) {
    const kernels::DenseSize size = one.size;
    const bool has_bias = one.has_bias, is_maximum = one.is_maximum;
    CAPTURE(size.inputs);
    CAPTURE(size.units);
    CAPTURE(size.stride);
    std::mt19937 random(3);
    const auto x = random_array<float>(size.inputs * size.stride, random),
               y = random_array<float>(size.units * size.stride, random),
               dy = random_array<float>(size.units * size.stride, random);
    std::vector<float> first;
    lockstep_test::for_each_bfloat16_instruction_set([&] {
      const kernels::BFloat16Products scope;
      std::vector<float> weights(size.inputs * size.units, 7), bias(size.units, 7),
          masked(dy.size() + 1, 7), scratch(kernels::dense_scratch(size.units, size.stride));
      kernels::Delta<float> delta{dy.data(), is_maximum ? y.data() : dy.data()};
      if (is_maximum) {
        delta.minimum = 0;
        delta.masked = masked.data();
      }
      kernels::dense_bias_gradient<float>(size, delta, has_bias ? bias.data() : nullptr,
                                          scratch.data());
      kernels::dense_weight_gradient<float>(size, x.data(), scratch.data(), weights.data());
      const auto gradient = [&](std::size_t u, std::size_t b) {
        return is_maximum && y[u * size.stride + b] <= 0 ? 0.0F : dy[u * size.stride + b];
      };
      double worst = 0;
      for (std::size_t u = 0; u < size.units; ++u) {
        double sum = 0;
        for (std::size_t b = 0; b < size.stride; ++b) {
          sum += static_cast<double>(gradient(u, b));
          if (is_maximum) worst += masked[u * size.stride + b] != gradient(u, b);
        }
        if (has_bias) worst = std::max(worst, std::abs(sum - static_cast<double>(bias[u])));
        for (std::size_t i = 0; i < size.inputs; ++i) {
          sum = 0;
          for (std::size_t b = 0; b < size.stride; ++b)
            sum += static_cast<double>(rounded(x[i * size.stride + b])) *
                   static_cast<double>(rounded(gradient(u, b)));
          worst = std::max(worst, std::abs(sum - static_cast<double>(weights[i * size.units + u])));
        }
      }
      CHECK(worst < 1e-3);
      CHECK(masked.back() == 7);
      CHECK((has_bias || size.units == 0 || bias[0] == 7));
      weights.insert(weights.end(), bias.begin(), bias.end());
      if (first.empty()) first = weights;
      CHECK(weights == first);
    });
  }
}
