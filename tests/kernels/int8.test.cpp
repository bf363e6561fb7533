#include "lockstep/kernels/int8.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/embedding.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

namespace {

/// A kernel in memory that is as large as it says.
struct Rounded {
  std::size_t inputs, units;
  ls::Buffer memory{kernels::Int8Kernel::bytes(inputs, units)};

  Rounded(std::size_t input_count, std::size_t unit_count, const float* weights,
          bool is_table = false)
      : inputs(input_count), units(unit_count) {
    kernels::quantize_int8(inputs, units, weights, kernel(), is_table);
  }
  [[nodiscard]] kernels::Int8Kernel kernel() const { return {inputs, units, memory.data()}; }
  [[nodiscard]] const float* weights() const {
    return reinterpret_cast<const float*>(memory.data());
  }
  [[nodiscard]] kernels::OtherWeights<float> format() const {
    return {memory.data(), memory.data() + memory.size(), kernels::multiply_int8,
            kernels::gather_int8};
  }
};

/// As the head of int8.hpp says, a number at a time.
std::vector<float> expected_of(const Rounded& w, std::size_t rows, const Array<float>& x,
                               const float* bias, float minimum) {
  std::vector<float> y(rows * w.units);
  const kernels::Int8Kernel kernel = w.kernel();
  for (std::size_t row = 0; row < rows; ++row) {
    float largest = 0;
    for (std::size_t i = 0; i < w.inputs; ++i)
      largest = std::max(largest, std::abs(x.data()[row * w.inputs + i]));
    const float scale = largest / 127, inverse = largest > 0 ? 127 / largest : 0;
    for (std::size_t unit = 0; unit < w.units; ++unit) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < w.inputs; ++i) {
        const volatile float scaled = x.data()[row * w.inputs + i] * inverse;
        sum += static_cast<std::int32_t>(std::nearbyint(scaled)) *
               kernel.numbers()[unit * kernel.inputs() + i];
      }
      const volatile float both = kernel.scales()[unit] * scale;
      const volatile float product = static_cast<float>(sum) * both;
      const float value = product + (bias == nullptr ? 0.0F : bias[unit]);
      y[row * w.units + unit] = std::max(minimum, value);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("int8: a kernel's numbers, by hand") {
  // Unit 0: largest 2, so the scale is 2 / 127, and 1 is 63.5: to the even number. Unit 1: zeros.
  // Unit 2: largest 127.
  const float weights[] = {-2, 0, 1, 1, 0, -127, 0.5F, 0, 2.5F};
  for_each_instruction_set([&] {
    const Rounded rounded(3, 3, weights);
    const kernels::Int8Kernel kernel = rounded.kernel();
    CHECK(kernel.inputs() == 32);
    CHECK(kernel.scales()[0] == 2.0F / 127);
    CHECK(kernel.scales()[1] == 0);
    CHECK(kernel.scales()[2] == 1);
    const std::int8_t* const numbers = kernel.numbers();
    CHECK(std::vector<int>(numbers, numbers + 4) == std::vector<int>{-127, 64, 32, 0});
    CHECK(std::vector<int>(numbers + 32, numbers + 36) == std::vector<int>(4));
    CHECK(std::vector<int>(numbers + 64, numbers + 68) == std::vector<int>{1, -127, 2, 0});
    CHECK(kernel.sums()[0] == -31);
    CHECK(kernel.sums()[2] == -124);
  });
  // A quarter of float32, and two numbers for each unit.
  CHECK(kernels::Int8Kernel::bytes(768, 2304) == 768 * 2304 + 2304 * 8);
}

TEST_CASE("int8: products of any size have the bits of plain loops, on all instruction sets") {
  struct Size {
    std::size_t rows, inputs, units;
    bool has_bias;
    float minimum;
  };
  constexpr float none = -std::numeric_limits<float>::infinity();
  for (const Size& s :
       {Size{1, 1, 1, true, none}, Size{1, 768, 40, true, none}, Size{2, 33, 17, false, 0},
        Size{3, 64, 8, true, none}, Size{4, 95, 130, true, -0.5F}, Size{5, 32, 3, true, none},
        Size{16, 100, 16, false, none}, Size{65, 128, 70, true, 0}, Size{130, 31, 5, true, none},
        Size{80, 600, 70, true, none}, Size{0, 5, 5, true, none}}) {
    CAPTURE(s.rows);
    CAPTURE(s.inputs);
    CAPTURE(s.units);
    std::mt19937 random(3);
    const Array<float> weights = random_array<float>(s.inputs * s.units, random),
                       x = random_array<float>(s.rows * s.inputs, random),
                       bias = random_array<float>(s.units, random);
    const Rounded rounded(s.inputs, s.units, weights.data());
    const float* const added = s.has_bias ? bias.data() : nullptr;
    const std::vector<float> expected = expected_of(rounded, s.rows, x, added, s.minimum);
    const std::size_t stride = kernels::padded_columns(s.rows);
    Array<float> lanes(s.inputs * stride);
    for (std::size_t row = 0; row < s.rows; ++row)
      for (std::size_t i = 0; i < s.inputs; ++i)
        lanes.data()[i * stride + row] = x.data()[row * s.inputs + i];
    for_each_instruction_set([&] {
      const kernels::WithOtherWeights<float> scope(rounded.format());
      Array<float> few(s.rows * s.units), batch(s.units * stride);
      kernels::few_forward<float>({s.rows,
                                   s.inputs,
                                   s.units,
                                   x.data(),
                                   rounded.weights(),
                                   added,
                                   few.data(),
                                   {.minimum = s.minimum}});
      kernels::dense_forward<float>({s.inputs, s.units, stride}, lanes.data(), rounded.weights(),
                                    added, batch.data(), {.minimum = s.minimum});
      bool few_equal = true, batch_equal = true;
      for (std::size_t row = 0; row < s.rows; ++row)
        for (std::size_t unit = 0; unit < s.units; ++unit) {
          const float value = expected[row * s.units + unit];
          few_equal &= few.data()[row * s.units + unit] == value;
          batch_equal &= batch.data()[unit * stride + row] == value;
        }
      CHECK(few_equal);
      CHECK(batch_equal);
    });
  }
}

TEST_CASE("int8: rows of a table are looked up, in a batch and one alone, and multiplied") {
  constexpr std::size_t vocabulary = 19, width = 37;
  std::mt19937 random(5);
  const Array<float> table = random_array<float>(vocabulary * width, random),
                     x = random_array<float>(width, random);
  Array<float> turned(table.size());
  for (std::size_t id = 0; id < vocabulary; ++id)
    for (std::size_t d = 0; d < width; ++d)
      turned.data()[d * vocabulary + id] = table[id * width + d];
  for_each_instruction_set([&] {
    const Rounded rounded(width, vocabulary, table.data(), true);
    const Rounded kernel(width, vocabulary, turned.data());
    CHECK(std::memcmp(rounded.memory.data(), kernel.memory.data(), kernel.memory.size()) == 0);
    const kernels::WithOtherWeights<float> scope(rounded.format());
    const auto number = [&](std::size_t id, std::size_t d) {  // by hand
      float largest = 0;
      for (std::size_t i = 0; i < width; ++i)
        largest = std::max(largest, std::abs(table[id * width + i]));
      const volatile float scaled = table[id * width + d] * (127 / largest);
      return std::nearbyint(scaled) * (largest / 127);
    };
    for (const std::size_t count : {0U, 5U, 16U, 33U}) {
      CAPTURE(count);
      const std::size_t stride = kernels::padded_columns(count);
      Array<float> ids(count);
      for (float& id : ids) id = static_cast<float>(random() % vocabulary);
      if (count > 0) ids[0] = static_cast<float>(vocabulary - 1);
      const Array<float> y(width * stride, 7.0F);
      kernels::gather_rows<float>(
          {rounded.weights(), width, ids.data(), count, stride, y.data(), vocabulary});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < stride; ++i)
        for (std::size_t d = 0; d < width; ++d)
          wrong +=
              y[d * stride + i] != (i < count ? number(static_cast<std::size_t>(ids[i]), d) : 0.0F);
      CHECK(wrong == 0);
    }
    std::vector<float> row(width + 1, 7.0F);
    const float id = 3;
    kernels::gather_rows<float>({rounded.weights(), width, &id, 1, 1, row.data(), vocabulary});
    for (std::size_t d = 0; d < width; ++d) CHECK(row[d] == number(3, d));
    CHECK(row[width] == 7);
  });
  const float id = 3;  // of floats
  std::vector<float> row(width);
  kernels::gather_rows<float>({table.data(), width, &id, 1, 1, row.data(), vocabulary});
  CHECK(std::equal(row.begin(), row.end(), table.data() + 3 * width));
}

TEST_CASE("int8: the largest numbers do not overflow, and products are close to those of floats") {
  constexpr std::size_t inputs = 4096, units = 16;
  const std::vector<float> ones(inputs * units, -1), x(inputs, 3);
  for_each_instruction_set([&] {
    const Rounded rounded(inputs, units, ones.data());
    const kernels::WithOtherWeights<float> scope(rounded.format());
    std::vector<float> y(units);
    kernels::few_forward<float>(
        {1, inputs, units, x.data(), rounded.weights(), nullptr, y.data(), {}});
    for (const float value : y) CHECK(value == doctest::Approx(-3.0 * inputs));
  });
  std::mt19937 random(4);
  const Array<float> weights = random_array<float>(inputs * units, random),
                     row = random_array<float>(inputs, random);
  const Rounded rounded(inputs, units, weights.data());
  std::vector<float> y(units), exact(units);
  kernels::few_forward<float>(
      {1, inputs, units, row.data(), weights.data(), nullptr, exact.data(), {}});
  const kernels::WithOtherWeights<float> scope(rounded.format());
  kernels::few_forward<float>(
      {1, inputs, units, row.data(), rounded.weights(), nullptr, y.data(), {}});
  double error = 0, size = 0;
  for (std::size_t unit = 0; unit < units; ++unit) {
    error += std::pow(y[unit] - exact[unit], 2);
    size += std::pow(exact[unit], 2);
  }
  CHECK(std::sqrt(error / size) < 0.01);
}

TEST_CASE("int8: what is not finite makes its row, or its unit, NaN, and no other") {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const float bad : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> weights(40 * 3, 1), x(2 * 40, 1);
    weights[7 * 3 + 1] = bad;  // of unit 1
    x[40 + 39] = bad;          // of row 1
    for_each_instruction_set([&] {
      const Rounded rounded(40, 3, weights.data());
      const kernels::WithOtherWeights<float> scope(rounded.format());
      std::vector<float> y(6);
      kernels::few_forward<float>({2, 40, 3, x.data(), rounded.weights(), nullptr, y.data(), {}});
      CHECK(y[0] == doctest::Approx(40));
      CHECK(std::isnan(y[1]));
      CHECK(y[2] == doctest::Approx(40));
      for (std::size_t unit = 3; unit < 6; ++unit) CHECK(std::isnan(y[unit]));
    });
  }
}
