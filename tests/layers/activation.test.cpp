#include "lockstep/layers/activation.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::check_gradients_for_all_batches;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;

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
