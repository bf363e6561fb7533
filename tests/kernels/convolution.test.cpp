#include "lockstep/kernels/convolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "lockstep/kernels/convolution_weights.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using kernels::ConvolutionSize;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

/// Calls f(x index, weight index, y index) for every product of the convolution, for sample 0.
template <class F>
void for_each_product(const ConvolutionSize& s, const F& f) {
  for (std::size_t row = 0; row < s.out_height; ++row)
    for (std::size_t column = 0; column < s.out_width; ++column)
      for (std::size_t tap_row = 0; tap_row < s.kernel_height; ++tap_row)
        for (std::size_t tap = 0; tap < s.kernel_width; ++tap) {
          const std::size_t in_row = row * s.stride_height + tap_row - s.pad_top;  // wraps below zero
          const std::size_t in_column = column * s.stride_width + tap - s.pad_left;
          if (in_row >= s.height || in_column >= s.width) continue;
          for (std::size_t c = 0; c < s.channels; ++c)
            for (std::size_t filter = 0; filter < s.filters; ++filter)
              f((in_row * s.width + in_column) * s.channels + c,
                ((tap_row * s.kernel_width + tap) * s.channels + c) * s.filters + filter,
                (row * s.out_width + column) * s.filters + filter);
        }
}

template <class T>
void check(const ConvolutionSize& s, bool masked) {
  CAPTURE(s.height);
  CAPTURE(s.channels);
  CAPTURE(s.filters);
  CAPTURE(s.batch);
  CAPTURE(masked);
  std::mt19937 random(1);
  const std::size_t inputs = s.height * s.width * s.channels, outputs = s.out_height * s.out_width * s.filters;
  const Array<T> x = random_array<T>(inputs * s.batch, random);
  const Array<T> w = random_array<T>(s.kernel_height * s.kernel_width * s.channels * s.filters, random);
  const Array<T> b = random_array<T>(s.filters, random);
  const Array<T> dy = random_array<T>(outputs * s.batch, random);
  const Array<T> y(outputs * s.batch, T(7)), dx(inputs * s.batch, T(7)), dw(w.size(), T(7)), db(s.filters, T(7));
  const Array<T> scratch(kernels::convolution_scratch(s), T(7));
  kernels::convolution_forward<T>(s, x.data(), w.data(), b.data(), y.data(), {.minimum = T(0)});
  kernels::convolution_input_gradient<T>(s, w.data(), dy.data(), dx.data());
  const kernels::Delta<T> delta =
      masked ? kernels::Delta<T>{dy.data(), y.data(), T(0)} : kernels::Delta<T>{dy.data(), dy.data()};
  kernels::convolution_weight_gradient<T>(s, x.data(), delta, dw.data(), db.data(), scratch.data());

  std::vector<double> y_sum(outputs * s.batch), dx_sum(inputs * s.batch), dw_sum(w.size()), db_sum(s.filters);
  const auto number = [](T value) { return static_cast<double>(value); };
  for (std::size_t i = 0; i < outputs; ++i)
    for (std::size_t n = 0; n < s.batch; ++n) y_sum[i * s.batch + n] = number(b[i % s.filters]);
  for_each_product(s, [&](std::size_t in, std::size_t weight, std::size_t out) {
    for (std::size_t n = 0; n < s.batch; ++n)
      y_sum[out * s.batch + n] += number(w[weight]) * number(x[in * s.batch + n]);
  });
  const auto gradient = [&](std::size_t i) { return masked && y[i] <= 0 ? 0.0 : number(dy[i]); };
  for_each_product(s, [&](std::size_t in, std::size_t weight, std::size_t out) {
    for (std::size_t n = 0; n < s.batch; ++n) {
      dx_sum[in * s.batch + n] += number(w[weight]) * number(dy[out * s.batch + n]);
      dw_sum[weight] += number(x[in * s.batch + n]) * gradient(out * s.batch + n);
    }
  });
  for (std::size_t i = 0; i < outputs; ++i)
    for (std::size_t n = 0; n < s.batch; ++n) db_sum[i % s.filters] += gradient(i * s.batch + n);

  const auto worst = [&](const Array<T>& got, const std::vector<double>& sums, double minimum) {
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(number(got[i]) - std::max(sums[i], minimum)) / (1 + std::abs(sums[i]));
      largest = std::isfinite(error) ? std::max(largest, error) : std::numeric_limits<double>::infinity();
    }
    return largest;
  };
  constexpr double none = -std::numeric_limits<double>::infinity();
  // (The expected sums are rounded too, to double.)
  const double tolerance = std::is_same_v<T, float> ? 3e-5 : 1e-12;
  CHECK(worst(y, y_sum, 0) < tolerance);
  CHECK(worst(dx, dx_sum, none) < tolerance);
  CHECK(worst(dw, dw_sum, none) < tolerance);
  CHECK(worst(db, db_sum, none) < tolerance);
}

ConvolutionSize size(std::size_t height, std::size_t width, std::size_t channels, std::size_t filters,
                     std::size_t kernel, std::size_t stride, std::size_t pad, std::size_t batch) {
  return {.height = height,
          .width = width,
          .channels = channels,
          .out_height = (height + 2 * pad - kernel) / stride + 1,
          .out_width = (width + 2 * pad - kernel) / stride + 1,
          .filters = filters,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .pad_top = pad,
          .pad_left = pad,
          .batch = batch};
}

}  // namespace

TEST_CASE("convolution kernels: against loops in double, few weights") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 48u, 64u})
      for (const ConvolutionSize& s : {size(5, 6, 1, 32, 3, 1, 0, batch), size(12, 11, 1, 7, 3, 1, 1, batch),
                                       size(7, 8, 3, 9, 5, 2, 2, batch), size(4, 4, 2, 1, 1, 3, 0, batch)}) {
        check<float>(s, false);
        check<double>(s, true);
        check<float>(s, true);
      }
    check<float>(size(3, 2, 1, 5, 7, 1, 3, 16), true);  // a kernel larger than the image
  });
}

TEST_CASE("convolution kernels: against loops in double, many weights") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 80u}) {
      check<float>(size(4, 5, 48, 20, 3, 1, 1, batch), false);
      check<double>(size(4, 5, 20, 33, 3, 2, 1, batch), false);
      check<float>(size(1, 3, 300, 10, 1, 1, 0, batch), false);
    }
    check<float>(size(5, 4, 9, 24, 5, 1, 3, 32), false);
    check<float>(size(3, 3, 16, 200, 3, 1, 1, 64), false);
    for (const std::size_t batch : {144u, 272u}) {  // more samples than a block of summands
      check<float>(size(2, 3, 48, 48, 3, 1, 1, batch), true);
      check<double>(size(2, 2, 48, 20, 3, 1, 1, batch), false);
    }
  });
}
