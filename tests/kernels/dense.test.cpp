#include "lockstep/kernels/dense.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

/// Errors are relative to the sum of the magnitudes of the summands.
struct Errors {
  double worst = 0;
  void add(double got, double sum, double magnitude) {
    const double error = std::abs(got - sum) / std::max(magnitude, 1e-30);
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
  }
};

template <class T>
void check(const kernels::DenseSize& size) {
  CAPTURE(size.inputs);
  CAPTURE(size.units);
  CAPTURE(size.stride);
  std::mt19937 random(1);
  const std::size_t stride = size.stride;
  const Array<T> x = random_array<T>(size.inputs * stride, random);
  const Array<T> w = random_array<T>(size.inputs * size.units, random);
  const Array<T> b = random_array<T>(size.units, random);
  const Array<T> dy = random_array<T>(size.units * stride, random);
  const Array<T> y(size.units * stride, T(7)), dx(size.inputs * stride, T(7)), dw(w.size(), T(7)),
      db(size.units, T(7));
  const Array<T> scratch(kernels::dense_scratch(size.units, stride), T(7));
  kernels::dense_forward<T>(size, x.data(), w.data(), b.data(), y.data(), {.minimum = T(-0.5)});
  kernels::dense_input_gradient<T>(size, w.data(), dy.data(), dx.data());
  kernels::dense_bias_gradient<T>(size, {dy.data(), dy.data()}, db.data(), scratch.data());
  kernels::dense_weight_gradient<T>(size, x.data(), scratch.data(), dw.data());

  Errors errors;
  const auto number = [](T value) { return static_cast<double>(value); };
  for (std::size_t u = 0; u < size.units; ++u) {
    double bias_sum = 0, bias_magnitude = 0;
    for (std::size_t s = 0; s < stride; ++s) {
      bias_sum += number(dy[u * stride + s]);
      bias_magnitude += std::abs(number(dy[u * stride + s]));
      double sum = number(b[u]), magnitude = std::abs(sum);
      for (std::size_t i = 0; i < size.inputs; ++i) {
        const double product = number(w[i * size.units + u]) * number(x[i * stride + s]);
        sum += product;
        magnitude += std::abs(product);
      }
      errors.add(number(y[u * stride + s]), std::max(sum, -0.5), magnitude);
    }
    errors.add(number(db[u]), bias_sum, bias_magnitude);
  }
  for (std::size_t i = 0; i < size.inputs; ++i) {
    for (std::size_t s = 0; s < stride; ++s) {
      double sum = 0, magnitude = 0;
      for (std::size_t u = 0; u < size.units; ++u) {
        const double product = number(w[i * size.units + u]) * number(dy[u * stride + s]);
        sum += product;
        magnitude += std::abs(product);
      }
      errors.add(number(dx[i * stride + s]), sum, magnitude);
    }
    for (std::size_t u = 0; u < size.units; ++u) {
      double sum = 0, magnitude = 0;
      for (std::size_t s = 0; s < stride; ++s) {
        const double product = number(x[i * stride + s]) * number(dy[u * stride + s]);
        sum += product;
        magnitude += std::abs(product);
      }
      errors.add(number(dw[i * size.units + u]), sum, magnitude);
    }
  }
  CHECK(errors.worst < 16 * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

}  // namespace

TEST_CASE("dense kernels: against loops in double, for awkward sizes") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t stride : {0u, 16u, 32u, 48u, 64u, 80u, 128u})
      for (const kernels::DenseSize size : {kernels::DenseSize{1, 1, stride},
                                            {3, 10, stride},
                                            {130, 17, stride},
                                            {6, 64, stride},
                                            {193, 5, stride},
                                            {257, 33, stride}}) {
        check<float>(size);
        check<double>(size);
      }
    check<float>({20, 200, 16});
    check<float>({40, 12, 272});
    check<float>({700, 128, 64});
    check<float>({140, 520, 48});  // several blocks of summands for more than one group of rows
    check<double>({20, 72, 16});
  });
}
