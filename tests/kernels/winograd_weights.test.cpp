#include "lockstep/kernels/winograd.hpp"

#include <doctest/doctest.h>

#include <algorithm>
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
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  CHECK(worst_error(dw, dw_sum) < tolerance);
  CHECK(worst_error(db, db_sum) < tolerance);
  if (masked)
    for (std::size_t i = 0; i < dy.size(); ++i) REQUIRE(number(kept[i]) == gradient(i));
}

}  // namespace

TEST_CASE("Winograd kernels: weight gradient against loops in double") {
  lockstep_test::for_each_winograd_size(
      [](auto zero, const ConvolutionSize& s, bool masked) { check<decltype(zero)>(s, masked); });
}
