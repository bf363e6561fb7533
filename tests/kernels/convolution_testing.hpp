// Compares the convolution kernels with plain loops in double.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "support/random_array.hpp"

namespace lockstep_test {

/// A square kernel, padded alike on all sides.
constexpr lockstep::kernels::ConvolutionSize convolution_size(
    std::size_t height, std::size_t width, std::size_t channels, std::size_t filters,
    std::size_t kernel, std::size_t stride, std::size_t pad, std::size_t batch,
    std::size_t groups = 1, std::size_t dilation = 1) {
  const std::size_t covered = (kernel - 1) * dilation + 1;
  return {.height = height,
          .width = width,
          .channels = channels,
          .out_height = (height + 2 * pad - covered) / stride + 1,
          .out_width = (width + 2 * pad - covered) / stride + 1,
          .filters = filters,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .pad_top = pad,
          .pad_left = pad,
          .batch = batch,
          .dilation_height = dilation,
          .dilation_width = dilation,
          .groups = groups};
}

/// Calls f(x index, weight index, y index) for every product of the convolution, for sample 0.
template <class F>
void for_each_product(const lockstep::kernels::ConvolutionSize& s, const F& f) {
  for (std::size_t row = 0; row < s.out_height; ++row)
    for (std::size_t column = 0; column < s.out_width; ++column)
      for (std::size_t tap_row = 0; tap_row < s.kernel_height; ++tap_row)
        for (std::size_t tap = 0; tap < s.kernel_width; ++tap) {
          const std::size_t in_row =
              row * s.stride_height + tap_row * s.dilation_height - s.pad_top;  // wraps below 0
          const std::size_t in_column =
              column * s.stride_width + tap * s.dilation_width - s.pad_left;
          if (in_row >= s.height || in_column >= s.width) continue;
          for (std::size_t c = 0; c < s.channels; ++c)
            for (std::size_t filter = 0; filter < s.groups * s.filters; ++filter)
              f((in_row * s.width + in_column) * s.groups * s.channels +
                    filter / s.filters * s.channels + c,
                ((tap_row * s.kernel_width + tap) * s.channels + c) * s.groups * s.filters + filter,
                (row * s.out_width + column) * s.groups * s.filters + filter);
        }
}

/// The largest error beside max(sum, minimum), relative to 1 + |sum|; infinite for NaN.
template <class T>
double worst_error(const Array<T>& got, const std::vector<double>& sums,
                   double minimum = -std::numeric_limits<double>::infinity()) {
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - std::max(sums[i], minimum)) /
                         (1 + std::abs(sums[i]));
    largest =
        std::isfinite(error) ? std::max(largest, error) : std::numeric_limits<double>::infinity();
  }
  return largest;
}

/// Forward, input gradient and the gradients of weights and bias; `masked`: through ReLU.
template <class T>
void check_convolution(const lockstep::kernels::ConvolutionSize& s, bool masked) {
  namespace kernels = lockstep::kernels;
  CAPTURE(s.height);
  CAPTURE(s.channels);
  CAPTURE(s.filters);
  CAPTURE(s.groups);
  CAPTURE(s.dilation_width);
  CAPTURE(s.batch);
  CAPTURE(masked);
  std::mt19937 random(1);
  const std::size_t filters = s.groups * s.filters;
  const std::size_t inputs = s.height * s.width * s.groups * s.channels,
                    outputs = s.out_height * s.out_width * filters;
  const Array<T> x = random_array<T>(inputs * s.batch, random);
  const Array<T> w =
      random_array<T>(s.kernel_height * s.kernel_width * s.channels * filters, random);
  const Array<T> b = random_array<T>(filters, random);
  const Array<T> dy = random_array<T>(outputs * s.batch, random);
  const Array<T> y(outputs * s.batch, T(7)), dx(inputs * s.batch, T(7)), dw(w.size(), T(7)),
      db(filters, T(7));
  const Array<T> scratch(kernels::convolution_scratch(s), T(7));
  kernels::convolution_forward<T>(s, x.data(), w.data(), b.data(), y.data(), {.minimum = T(0)});
  // (Onto what it holds, half of the time.)
  const bool adds = masked && !s.is_depthwise();
  kernels::convolution_input_gradient<T>(s, w.data(), dy.data(), dx.data(), nullptr, {}, adds);
  const Array<T> own_dy(dy.size());
  std::copy(dy.begin(), dy.end(), own_dy.begin());
  T* const in_place = s.is_depthwise() ? own_dy.data() : nullptr;
  const kernels::Delta<T> delta = masked
                                      ? kernels::Delta<T>{own_dy.data(), y.data(), T(0), in_place}
                                      : kernels::Delta<T>{own_dy.data(), own_dy.data()};
  kernels::convolution_weight_gradient<T>(s, x.data(), delta, dw.data(), db.data(), scratch.data());

  std::vector<double> y_sum(outputs * s.batch), dx_sum(inputs * s.batch, adds ? 7 : 0),
      dw_sum(w.size()), db_sum(filters);
  const auto number = [](T value) { return static_cast<double>(value); };
  for (std::size_t i = 0; i < outputs; ++i)
    for (std::size_t n = 0; n < s.batch; ++n) y_sum[i * s.batch + n] = number(b[i % filters]);
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
    for (std::size_t n = 0; n < s.batch; ++n) db_sum[i % filters] += gradient(i * s.batch + n);

  // (The expected sums are rounded too, to double.)
  const double tolerance = std::is_same_v<T, float> ? 3e-5 : 1e-12;
  CHECK(worst_error(y, y_sum, 0) < tolerance);
  CHECK(worst_error(dx, dx_sum) < tolerance);
  CHECK(worst_error(dw, dw_sum) < tolerance);
  CHECK(worst_error(db, db_sum) < tolerance);
}

}  // namespace lockstep_test
