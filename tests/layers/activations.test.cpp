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
#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::activations;
using lockstep_test::check_gradients_for_all_batches;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;

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

namespace {

/// A user's own function, with what a user writes and nothing more.
struct Square {
  static constexpr std::string_view name = "square_of_a_positive_number";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    const P positive = abs(x) + P(1);
    return positive * positive;
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * sqrt(y) * P(2);
  }
};

struct NoGradient {
  static constexpr std::string_view name = "no_gradient";
  template <class P>
  static P value(const P& x) {
    return x;
  }
};

static_assert(ls::ActivationFunction<Square>);
static_assert(!ls::ActivationFunction<NoGradient>);
static_assert(!ls::ActivationFunction<int>);

template <class T, class F, class Expected>
double worst_error(Expected expected) {
  using In = ls::Shape<2, 150>;
  LayerRig<ls::Activation<F>, In, T> rig(16);
  for (std::size_t i = 0; i < rig.x.size(); ++i)
    rig.x[i] = T(-12) + T(24) * static_cast<T>(i) / static_cast<T>(rig.x.size());
  rig.forward();
  double worst = 0;
  for (std::size_t i = 0; i < rig.x.size(); ++i) {
    const double y = expected(static_cast<double>(rig.x[i]));
    worst =
        std::max(worst, std::abs(static_cast<double>(rig.y[i]) - y) / std::max(1e-6, std::abs(y)));
  }
  return worst;
}

}  // namespace

TEST_CASE("Activation: values") {
  const auto relu = [](double x) { return x > 0 ? x : 0; };
  const auto leaky = [](double x) { return x > 0 ? x : 0.2 * x; };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto tanh = [](double x) { return std::tanh(x); };
  for_each_instruction_set([&] {
    CHECK(worst_error<float, ls::ReLU>(relu) == 0);
    CHECK(worst_error<float, ls::LeakyReLU<20>>(leaky) < 2e-7);
    CHECK(worst_error<float, ls::Sigmoid>(sigmoid) < 4e-7);
    CHECK(worst_error<float, ls::Tanh>(tanh) < 5e-7);
    CHECK(worst_error<float, ls::Linear>([](double x) { return x; }) == 0);
    CHECK(worst_error<double, ls::Sigmoid>(sigmoid) < 1e-15);
    CHECK(worst_error<double, ls::Tanh>(tanh) < 1e-15);
  });
}

TEST_CASE("Activation: gradients") {
  for_each_instruction_set([] {
    check_gradients_for_all_batches<ls::Activation<ls::ReLU>, ls::Shape<3, 5>>();
    check_gradients_for_all_batches<ls::Activation<ls::LeakyReLU<>>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::Sigmoid>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::Tanh>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::Linear>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::GELU>, ls::Shape<3, 5>>();
    check_gradients_for_all_batches<ls::Activation<ls::GELUTanh>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::Mish>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::SELU>, ls::Shape<7>>();
    check_gradients_for_all_batches<ls::Activation<ls::Softplus>, ls::Shape<7>>();
  });
}

TEST_CASE("Activation: NaN stays NaN") {
  LayerRig<ls::Activation<ls::ReLU>, ls::Shape<2>, float> relu(1);
  LayerRig<ls::Activation<ls::Sigmoid>, ls::Shape<2>, float> sigmoid(1);
  LayerRig<ls::Activation<ls::Tanh>, ls::Shape<2>, float> tanh(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  relu.x[0] = sigmoid.x[0] = tanh.x[0] = nan;
  relu.forward();
  sigmoid.forward();
  tanh.forward();
  CHECK(std::isnan(relu.y[0]));
  CHECK(std::isnan(sigmoid.y[0]));
  CHECK(std::isnan(tanh.y[0]));
}

TEST_CASE("Softmax: sums to one over the last dimension, also for large inputs; gradients") {
  for_each_instruction_set([] {
    check_gradients_for_all_batches<ls::Softmax, ls::Shape<10>>();
    check_gradients_for_all_batches<ls::Softmax, ls::Shape<3, 4>>();
    check_gradients_for_all_batches<ls::Softmax, ls::Shape<1>>();
    using In = ls::Shape<2, 3>;
    LayerRig<ls::Softmax, In, float> rig(5);
    for (float& x : rig.x) x *= 1e4f;
    rig.forward();
    for (std::size_t group = 0; group < 2; ++group)
      for (std::size_t s = 0; s < 16; ++s) {
        double sum = 0;
        for (std::size_t c = 0; c < 3; ++c)
          sum += static_cast<double>(rig.y[(group * 3 + c) * 16 + s]);
        CHECK(std::abs(sum - 1) < 1e-6);
      }
  });
}
