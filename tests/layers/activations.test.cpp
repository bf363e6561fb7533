// All activation functions against Keras, and what the concept promises beyond values.
#include "lockstep/layers/activations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "golden/activations.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::activations;

namespace {

template <class T>
struct Result {
  std::vector<T> y, dx;
};

template <class A, class T>
Result<T> run(const std::vector<T>& x, const std::vector<T>& dy) {
  const std::size_t n = x.size();
  std::vector<T> y(n), slope(n), dx(n);
  ls::detail::activate<A, T>(n, x.data(), y.data(), slope.data());
  ls::detail::activation_gradient<A, T>(n, dy.data(), y.data(), slope.data(), dx.data());
  return {y, dx};
}

template <class T>
double worst_error(const double* expected, const std::vector<T>& got) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i]) /
                                std::max(1.0, std::abs(expected[i])));
  return worst;
}

template <class A, class T>
void check_values(const double* values, const double* derivatives, double tolerance) {
  const std::vector<T> x(std::begin(golden::x), std::end(golden::x));
  const Result<T> result = run<A, T>(x, std::vector<T>(x.size(), T(1)));
  CHECK(worst_error(values, result.y) < tolerance);
  CHECK(worst_error(derivatives, result.dx) < tolerance);
}

/// Finite for finite x, 0 where dy is 0, NaN stays NaN, and each element alone gives the same bits
/// as in a vector.
template <class A, class T>
void check_promises() {
  constexpr T largest = std::numeric_limits<T>::max() / T(2);
  constexpr T least = std::numeric_limits<T>::min();
  std::vector<T> x{T(0),   -T(0),   largest, -largest, least,  -least,
                   T(1e4), T(-1e4), T(88),   T(-88),   T(709), T(-709)};
  for (int i = -60; i <= 60; ++i) x.push_back(static_cast<T>(i) * T(0.37));
  std::vector<T> dy(x.size(), T(1.25));
  dy[3] = dy[20] = 0;
  const Result<T> all = run<A>(x, dy);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    CHECK(std::isfinite(all.y[i]));
    CHECK(std::isfinite(run<A>(std::vector<T>{x[i]}, std::vector<T>{T(0.5)}).y[0]));
    const Result<T> alone = run<A>(std::vector<T>{x[i]}, std::vector<T>{dy[i]});
    CHECK(alone.y[0] == all.y[i]);
    CHECK((alone.dx[0] == all.dx[i] || std::isnan(all.dx[i])));
    CHECK(std::isfinite(all.dx[i]) !=
          (std::is_same_v<A, ls::Exponential> && all.y[i] == std::numeric_limits<T>::max()));
  }
  CHECK(all.dx[3] == 0);
  CHECK(all.dx[20] == 0);
  const T nan = std::numeric_limits<T>::quiet_NaN();
  CHECK(std::isnan(run<A>(std::vector<T>{nan}, std::vector<T>{T(1)}).y[0]));
}

template <class A>
void check(const char* name, const double* values, const double* derivatives,
           double double_tolerance = 2e-14) {
  CAPTURE(std::string(name));
  CHECK(A::name == name);
  check_values<A, float>(values, derivatives, 6e-7);
  check_values<A, double>(values, derivatives, double_tolerance);
  check_promises<A, float>();
  check_promises<A, double>();
}

}  // namespace

TEST_CASE("GELU: its exact values") {
  const Result<double> exact =
      run<ls::GELU>(std::vector<double>{-1, 0.5, 1, 2}, std::vector<double>(4, 1.0));
  const double expected[] = {-0.15865525393145707, 0.34573123063700656, 0.84134474606854293,
                             1.9544997361036416};
  CHECK(worst_error(expected, exact.y) < 1e-15);
}

TEST_CASE("activation functions: Keras's values and derivatives; finite, local, honest about NaN") {
  lockstep_test::for_each_instruction_set([] {
    // (Keras has the constants of GELU and leaky ReLU in float32.)
    check<ls::Linear>("linear", golden::linear, golden::linear_derivative);
    check<ls::ReLU>("relu", golden::relu, golden::relu_derivative);
    check<ls::ReLU6>("relu6", golden::relu6, golden::relu6_derivative);
    check<ls::LeakyReLU<20>>("leaky_relu", golden::leaky_relu, golden::leaky_relu_derivative, 5e-8);
    check<ls::LeakyReLU<>>("leaky_relu", golden::leaky_relu_layer,
                           golden::leaky_relu_layer_derivative, 5e-8);
    check<ls::ELU>("elu", golden::elu, golden::elu_derivative);
    check<ls::SELU>("selu", golden::selu, golden::selu_derivative);
    check<ls::GELU>("gelu", golden::gelu, golden::gelu_derivative, 2e-8);
    check<ls::GELUTanh>("gelu_tanh", golden::gelu_tanh, golden::gelu_tanh_derivative, 2e-8);
    check<ls::SiLU>("silu", golden::silu, golden::silu_derivative);
    check<ls::Sigmoid>("sigmoid", golden::sigmoid, golden::sigmoid_derivative);
    check<ls::Tanh>("tanh", golden::tanh, golden::tanh_derivative);
    check<ls::Softplus>("softplus", golden::softplus, golden::softplus_derivative);
    check<ls::Softsign>("softsign", golden::softsign, golden::softsign_derivative);
    check<ls::Mish>("mish", golden::mish, golden::mish_derivative);
    check<ls::HardSigmoid>("hard_sigmoid", golden::hard_sigmoid, golden::hard_sigmoid_derivative);
    check<ls::HardSiLU>("hard_silu", golden::hard_silu, golden::hard_silu_derivative);
    check<ls::Exponential>("exponential", golden::exponential, golden::exponential_derivative);
  });
}
