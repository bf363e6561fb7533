#include "lockstep/layers/activations.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>

#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace ls = lockstep;

namespace {

using lockstep_test::Array;

/// value and gradient against a function of one number and its central difference.
template <class A>
void check(const char* name, double (*function)(double)) {
  CHECK(A::name == name);
  std::mt19937 random(1);
  const Array<double> x = lockstep_test::random_array<double>(37, random);
  const Array<double> dy = lockstep_test::random_array<double>(37, random), y(37), dx(37);
  for (double& value : x) value *= 4;
  dy[5] = 0;
  ls::detail::activate<A>(37, static_cast<const double*>(x.data()), y.data());
  ls::detail::activation_gradient<A>(37, static_cast<const double*>(dy.data()), static_cast<const double*>(y.data()),
                                     dx.data());
  for (std::size_t i = 0; i < 37; ++i) {
    const double difference = (function(x[i] + 1e-6) - function(x[i] - 1e-6)) / 2e-6;
    CHECK(y[i] == doctest::Approx(function(x[i])).epsilon(1e-12));
    CHECK(std::abs(dx[i] - dy[i] * difference) < 1e-8);
  }
  CHECK(dx[5] == 0);
}

}  // namespace

TEST_CASE("activations: values, and gradients from the value") {
  lockstep_test::for_each_instruction_set([] {
    check<ls::Linear>("linear", [](double x) { return x; });
    check<ls::ReLU>("relu", [](double x) { return x > 0 ? x : 0; });
    check<ls::LeakyReLU<10>>("leaky_relu", [](double x) { return x > 0 ? x : 0.1 * x; });
    check<ls::Sigmoid>("sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); });
    check<ls::Tanh>("tanh", [](double x) { return std::tanh(x); });
  });
}

TEST_CASE("activations: which ones the products do by themselves") {
  static_assert(ls::detail::is_fused<ls::Linear, float> && ls::detail::is_fused<ls::ReLU, float>);
  static_assert(!ls::detail::is_fused<ls::Tanh, float>);
  CHECK(ls::detail::fused_minimum<ls::ReLU, float>() == 0);
  CHECK(std::isinf(ls::detail::fused_minimum<ls::Tanh, float>()));
}
