#include "lockstep/kernels/winograd.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/winograd_testing.hpp"

namespace kernels = lockstep::kernels;
using kernels::ConvolutionSize;
using lockstep_test::Array;
using lockstep_test::random_array;
using lockstep_test::worst_error;

namespace {

/// Forward (with or without a bias and a minimum) and input gradient, beside plain loops in double.
template <class T>
void check(const ConvolutionSize& s, bool with_bias) {
  CAPTURE(s.height);
  CAPTURE(s.width);
  CAPTURE(s.channels);
  CAPTURE(s.filters);
  CAPTURE(s.pad_top);
  CAPTURE(s.batch);
  std::mt19937 random(1);
  const std::size_t inputs = s.height * s.width * s.channels,
                    outputs = s.out_height * s.out_width * s.filters;
  const Array<T> x = random_array<T>(inputs * s.batch, random);
  const Array<T> w = random_array<T>(s.weights(), random);
  const Array<T> b = random_array<T>(s.filters, random);
  const Array<T> dy = random_array<T>(outputs * s.batch, random);
  const Array<T> y(outputs * s.batch, T(7)), dx(inputs * s.batch, T(7));
  const Array<T> scratch(kernels::winograd_scratch(s), std::numeric_limits<T>::quiet_NaN());
  const T minimum = with_bias ? T(-0.5) : -std::numeric_limits<T>::infinity();
  kernels::winograd_forward<T>(s, x.data(), w.data(), with_bias ? b.data() : nullptr, minimum,
                               y.data(), scratch.data());
  // (Onto what it holds, half of the time.)
  if (!with_bias) std::fill_n(dx.data(), dx.size(), std::numeric_limits<T>::quiet_NaN());
  kernels::winograd_input_gradient<T>(s, w.data(), dy.data(), dx.data(), scratch.data(), with_bias);

  const auto number = [](T value) { return static_cast<double>(value); };
  std::vector<double> y_sum(outputs * s.batch), dx_sum(inputs * s.batch, with_bias ? 7 : 0);
  if (with_bias)
    for (std::size_t i = 0; i < y_sum.size(); ++i) y_sum[i] = number(b[i / s.batch % s.filters]);
  lockstep_test::for_each_product(s, [&](std::size_t in, std::size_t weight, std::size_t out) {
    for (std::size_t n = 0; n < s.batch; ++n) {
      y_sum[out * s.batch + n] += number(w[weight]) * number(x[in * s.batch + n]);
      dx_sum[in * s.batch + n] += number(w[weight]) * number(dy[out * s.batch + n]);
    }
  });
  const double tolerance = std::is_same_v<T, float> ? 3e-5 : 1e-12;
  CHECK(worst_error(y, y_sum, number(minimum)) < tolerance);
  CHECK(worst_error(dx, dx_sum) < tolerance);
}

}  // namespace

TEST_CASE("Winograd kernels: against loops in double") {
  lockstep_test::for_each_winograd_size([](auto zero, const ConvolutionSize& s, bool with_bias) {
    check<decltype(zero)>(s, with_bias);
  });
}
