#include "lockstep/kernels/convolution1d.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using kernels::Convolution1DSize;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

/// All three products against loops in double.
template <class T>
void check(Convolution1DSize s) {
  CAPTURE(s.samples);
  CAPTURE(s.steps);
  CAPTURE(s.stride);
  CAPTURE(s.pad);
  s.x_stride = kernels::padded_columns(s.samples * s.steps);
  s.y_stride = kernels::padded_columns(s.samples * s.out_steps);
  std::mt19937 random(4);
  const std::size_t weights_size = s.taps * s.group_channels() * s.filters;
  const Array<T> x = random_array<T>(s.channels * s.x_stride, random),
                 w = random_array<T>(weights_size, random), b = random_array<T>(s.filters, random),
                 dy(s.filters * s.y_stride, T(0));
  for (std::size_t f = 0; f < s.filters; ++f)
    for (std::size_t i = 0; i < s.samples * s.out_steps; ++i)
      dy[f * s.y_stride + i] = T(i % 7) - T(f);
  const Array<T> y(dy.size(), T(7)), dx(x.size(), T(7)), dw(w.size(), T(7)), db(s.filters, T(7));
  const Array<T> columns(s.columns_size(), T(7)), scratch(kernels::convolution1d_scratch(s), T(7));
  kernels::convolution1d_forward<T>(s, x.data(), w.data(), b.data(), y.data(), columns.data());
  kernels::convolution1d_weight_gradient<T>(s, columns.data(), {dy.data(), dy.data()}, dw.data(),
                                            db.data(), scratch.data());
  kernels::convolution1d_input_gradient<T>(s, w.data(), dy.data(), columns.data(), dx.data());

  Array<double> want_y(y.size(), 0.0), want_dx(dx.size(), 0.0), want_dw(dw.size(), 0.0);
  for (std::size_t f = 0; f < s.filters; ++f)
    for (std::size_t sample = 0; sample < s.samples; ++sample)
      for (std::size_t t = 0; t < s.out_steps; ++t) {
        const std::size_t out = f * s.y_stride + sample * s.out_steps + t;
        want_y[out] = static_cast<double>(b[f]);
        for (std::size_t tap = 0; tap < s.taps; ++tap)
          for (std::size_t c = 0; c < s.group_channels(); ++c) {
            const std::size_t place = t * s.stride + tap * s.dilation;
            if (place < s.pad || place >= s.pad + s.steps) continue;
            const std::size_t channel = f / s.group_filters() * s.group_channels() + c;
            const std::size_t in = channel * s.x_stride + sample * s.steps + place - s.pad;
            const std::size_t weight = (tap * s.group_channels() + c) * s.filters + f;
            want_y[out] += static_cast<double>(w[weight]) * static_cast<double>(x[in]);
            want_dx[in] += static_cast<double>(w[weight]) * static_cast<double>(dy[out]);
            want_dw[weight] += static_cast<double>(x[in]) * static_cast<double>(dy[out]);
          }
      }
  double worst = 0;
  const auto compare = [&](const Array<double>& want, const Array<T>& got, std::size_t stride,
                           std::size_t used) {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (i % stride < used)
        worst = std::max(worst, std::abs(want[i] - static_cast<double>(got[i])));
  };
  compare(want_y, y, std::max<std::size_t>(s.y_stride, 1), s.samples * s.out_steps);
  compare(want_dx, dx, std::max<std::size_t>(s.x_stride, 1), s.x_stride);  // the padding is zero
  compare(want_dw, dw, 1, 1);
  CHECK(worst < (sizeof(T) == 4 ? 2e-3 : 1e-11));
}

}  // namespace

TEST_CASE("1-D convolution: against loops in double, with strides, dilation, groups and padding") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t samples : {0u, 1u, 3u, 17u})
      for (const Convolution1DSize& size :
           {Convolution1DSize{.steps = 5, .out_steps = 3, .channels = 2, .filters = 3, .taps = 3},
            {.steps = 19,
            .out_steps = 19,
            .channels = 2,
            .filters = 3,
            .taps = 3,
            .dilation = 2,
            .pad = 4},
            {.steps = 19,
            .out_steps = 7,
            .channels = 4,
            .filters = 6,
            .taps = 4,
            .stride = 3,
            .groups = 2,
            .pad = 2},
            {.steps = 2, .out_steps = 2, .channels = 1, .filters = 1, .taps = 9, .pad = 4}}) {
        Convolution1DSize s = size;
        s.samples = samples;
        check<float>(s);
        check<double>(s);
      }
  });
}
