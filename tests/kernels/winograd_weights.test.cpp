#include "lockstep/kernels/winograd_weights.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/convolution_testing.hpp"
#include "support/instruction_sets.hpp"

namespace kernels = lockstep::kernels;
using kernels::ConvolutionSize;
using lockstep_test::Array;
using lockstep_test::convolution_size;
using lockstep_test::random_array;

namespace {

/// The gradients of weights and bias, beside plain loops in double; `masked`: through ReLU.
template <class T>
void check(const ConvolutionSize& s, bool masked) {
  CAPTURE(s.height);
  CAPTURE(s.width);
  CAPTURE(s.channels);
  CAPTURE(s.filters);
  CAPTURE(s.pad_top);
  CAPTURE(s.batch);
  std::mt19937 random(1);
  const std::size_t outputs = s.out_height * s.out_width * s.filters;
  const Array<T> x = random_array<T>(s.height * s.width * s.channels * s.batch, random);
  const Array<T> y = random_array<T>(outputs * s.batch, random);
  const Array<T> dy = random_array<T>(outputs * s.batch, random);
  const Array<T> dw(s.weights(), T(7)), db(s.filters, T(7)), without_bias(s.weights(), T(7));
  const Array<T> kept(dy.size(), T(7));
  const Array<T> scratch(kernels::winograd_weights_scratch(s), std::numeric_limits<T>::quiet_NaN());
  const kernels::Delta<T> delta = masked ? kernels::Delta<T>{dy.data(), y.data(), T(0), kept.data()}
                                         : kernels::Delta<T>{dy.data(), dy.data()};
  kernels::winograd_weight_gradient<T>(s, x.data(), delta, dw.data(), db.data(), scratch.data());
  kernels::winograd_weight_gradient<T>(s, x.data(), delta, without_bias.data(), nullptr,
                                       scratch.data());
  CHECK(std::equal(dw.begin(), dw.end(), without_bias.begin()));

  const auto number = [](T value) { return static_cast<double>(value); };
  const auto gradient = [&](std::size_t i) { return masked && y[i] <= 0 ? 0.0 : number(dy[i]); };
  std::vector<double> dw_sum(dw.size()), db_sum(db.size());
  lockstep_test::for_each_product(s, [&](std::size_t in, std::size_t weight, std::size_t out) {
    for (std::size_t n = 0; n < s.batch; ++n)
      dw_sum[weight] += number(x[in * s.batch + n]) * gradient(out * s.batch + n);
  });
  for (std::size_t i = 0; i < dy.size(); ++i) db_sum[i / s.batch % s.filters] += gradient(i);
  const auto worst = [&](const Array<T>& got, const std::vector<double>& expected) {
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(number(got[i]) - expected[i]) / (1 + std::abs(expected[i]));
      largest =
          std::isfinite(error) ? std::max(largest, error) : std::numeric_limits<double>::infinity();
    }
    return largest;
  };
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  CHECK(worst(dw, dw_sum) < tolerance);
  CHECK(worst(db, db_sum) < tolerance);
  if (masked)
    for (std::size_t i = 0; i < dy.size(); ++i) REQUIRE(number(kept[i]) == gradient(i));
}

}  // namespace

TEST_CASE("Winograd kernels: weight gradient against loops in double") {
  lockstep_test::for_each_instruction_set([] {
    for (const std::size_t batch : {0u, 16u, 48u}) {
      check<float>(convolution_size(6, 8, 16, 16, 3, 1, 1, batch), false);
      check<double>(convolution_size(7, 5, 16, 19, 3, 1, 1, batch), true);
      check<float>(convolution_size(7, 6, 21, 34, 3, 1, 0, batch), true);
      check<double>(convolution_size(4, 7, 17, 16, 3, 1, 2, batch), false);
    }
    check<float>(convolution_size(4, 4, 64, 72, 3, 1, 1, 80), true);
    check<float>(convolution_size(1, 2, 16, 16, 3, 1, 1, 16), false);  // smaller than a tile
  });
}
