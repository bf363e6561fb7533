// The numbers behind Keras's names: a test for each line of formulas and defaults, which bears its
// name. The formulas are written out here once more, for one weight in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "optimizers/optimizer_testing.hpp"
#include "support/loss_sums.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// step(w, g, t) is the formula, for the t-th update, from 1.
template <class O>
void check_formula(const O& optimizer,
                   const std::function<void(double&, double, std::int64_t)>& step) {
  const double start[] = {0.7};
  Arena<double, O> arena(optimizer, start);
  double w = start[0];
  for (std::int64_t t = 1; t <= 6; ++t) {
    const double g = std::sin(1.3 * static_cast<double>(t * t));
    arena.update({.iteration = t, .learning_rate = optimizer.learning_rate},
                 std::vector<double>{g});
    step(w, g, t);
    CHECK(arena.parameters()[0] == doctest::Approx(w).epsilon(1e-12));
  }
}

template <class Loss>
double loss_of(const Loss& loss, const std::vector<double>& predictions,
               const std::vector<double>& targets) {
  const std::size_t n = predictions.size();
  return sum_of_losses(loss, Tensor<double>(1, n, predictions).cview(),
                       Tensor<double>(1, n, targets).cview());
}

/// The largest weight of a kernel that is drawn, which must lie in the last tenth below the limit.
template <class Net>
double largest(std::size_t variable = 0) {
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<Net>(alone, {.seed = 7}, ls::MeanSquaredError{}, ls::SGD{});
  float most = 0;
  const std::vector<float> values = model.get_weights()[variable].values;
  for (const float value : values) most = std::max(most, std::abs(value));
  return static_cast<double>(most);
}

}  // namespace

TEST_SUITE_BEGIN("Keras: numerics");

TEST_CASE("order: reduce, clip, decoupled weight decay, step") {
  using Line =
      ls::Sequential<ls::Input<1>, ls::Dense<1, ls::Linear, ls::DenseOptions{.use_bias = false}>>;
  const auto after_one_step = [](const ls::SGD& sgd) {
    ls::OneDeviceStrategy alone;
    auto model = ls::compile<Line, double>(alone, {.seed = 1}, ls::MeanSquaredError{}, sgd);
    auto weights = model.get_weights();
    weights[0].values = {1};
    model.set_weights(weights);
    // The gradients are 8 and -2; their mean is 3.
    model.fit(ls::from_tensor_slices(ls::Tensor<double>({1, 1}, {2, 1}),
                                     ls::Tensor<double>({-3, 2}, {2, 1}))
                  .batch(2),
              {.epochs = 1, .verbose = 0});
    return model.get_weights()[0].values[0];
  };
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-12); };
  CHECK(after_one_step({.learning_rate = 0.5}) == near(1 - 0.5 * 3));
  for (const ls::SGD& sgd :
       {ls::SGD{.learning_rate = 0.5, .weight_decay = 0.2, .clipnorm = 0.25},
        ls::SGD{.learning_rate = 0.5, .weight_decay = 0.2, .clipvalue = 0.25},
        ls::SGD{.learning_rate = 0.5, .weight_decay = 0.2, .global_clipnorm = 0.25}})
    CHECK(after_one_step(sgd) == near(1 - 1 * 0.2 * 0.5 - 0.5 * 0.25));
}

TEST_CASE(
    "clipping: clipnorm is for each tensor, global_clipnorm for all together, clipvalue for each "
    "element; two of them are an error") {
  using Plane = ls::Sequential<ls::Input<2>, ls::Dense<1>>;
  ls::OneDeviceStrategy alone;
  // One sample (3, 4), whose target is missed by -1/2: the gradients are -3, -4 and the bias's -1.
  const auto data =
      ls::from_tensor_slices(ls::Tensor<double>({3, 4}, {1, 2}), ls::Tensor<double>({0.5}, {1, 1}))
          .batch(1);
  const auto check = [&](ls::SGD sgd, const std::vector<double>& expected) {
    sgd.learning_rate = 1;
    auto model = ls::compile<Plane, double>(alone, {.seed = 1}, ls::MeanSquaredError{}, sgd);
    auto weights = model.get_weights();
    weights[0].values = {0, 0};
    model.set_weights(weights);
    model.fit(data, {.epochs = 1, .verbose = 0});
    weights = model.get_weights();
    const double after[] = {weights[0].values[0], weights[0].values[1], weights[1].values[0]};
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(after[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  };
  check({}, {3, 4, 1});
  check({.clipnorm = 2.5}, {1.5, 2, 1});
  const double all = 2.5 / std::sqrt(9.0 + 16 + 1);
  check({.global_clipnorm = 2.5}, {3 * all, 4 * all, all});
  check({.clipvalue = 2.5}, {2.5, 2.5, 1});
  CHECK_THROWS_AS(check({.clipnorm = 2.5, .clipvalue = 2.5}, {}), ls::ConfigurationError);
  CHECK_THROWS_AS(check({.clipnorm = 2.5, .global_clipnorm = 2.5}, {}), ls::ConfigurationError);
}

TEST_CASE("SGD lr .01: m = mu m - lr g; w += m; nesterov: w += mu m - lr g") {
  check_formula(ls::SGD{}, [](double& w, double g, std::int64_t) { w -= 0.01 * g; });
  double m = 0;
  check_formula(ls::SGD{.momentum = 0.9}, [&](double& w, double g, std::int64_t) {
    m = 0.9 * m - 0.01 * g;
    w += m;
  });
  m = 0;
  check_formula(ls::SGD{.momentum = 0.9, .nesterov = true}, [&](double& w, double g, std::int64_t) {
    m = 0.9 * m - 0.01 * g;
    w += 0.9 * m - 0.01 * g;
  });
}

TEST_CASE(
    "Adam lr .001 b1 .9 b2 .999 eps 1e-7: a = lr sqrt(1 - b2^t) / (1 - b1^t); w -= a m / (sqrt(v) "
    "+ eps). AdamW wd .004") {
  double m = 0, v = 0;
  const auto adam = [&](double& w, double g, std::int64_t t) {
    m += 0.1 * (g - m);
    v += 0.001 * (g * g - v);
    const auto power = static_cast<double>(t);
    const double a = 0.001 * std::sqrt(1 - std::pow(0.999, power)) / (1 - std::pow(0.9, power));
    w -= a * m / (std::sqrt(v) + 1e-7);
  };
  check_formula(ls::Adam{}, adam);
  m = v = 0;
  check_formula(ls::AdamW{}, [&](double& w, double g, std::int64_t t) {
    w -= w * 0.004 * 0.001;
    adam(w, g, t);
  });
}

TEST_CASE("RMSprop lr .001 rho .9: w -= lr g / sqrt(v + eps). Adagrad lr .001, accumulator .1") {
  double v = 0, sum = 0.1;
  check_formula(ls::RMSprop{}, [&](double& w, double g, std::int64_t) {
    v = 0.9 * v + 0.1 * g * g;
    w -= 0.001 * g / std::sqrt(v + 1e-7);
  });
  check_formula(ls::Adagrad{}, [&](double& w, double g, std::int64_t) {
    sum += g * g;
    w -= 0.001 * g / std::sqrt(sum + 1e-7);
  });
}

TEST_CASE(
    "glorot_uniform: +-sqrt(6 / (fan_in + fan_out)); he_uniform: +-sqrt(6 / fan_in); conv fans "
    "times the receptive field; bias 0") {
  const auto check = [](double most, double limit) {
    CHECK(most <= limit * (1 + 1e-6));
    CHECK(most > 0.9 * limit);
  };
  check(largest<ls::Sequential<ls::Input<60>, ls::Dense<40>>>(), std::sqrt(6.0 / 100));
  constexpr ls::DenseOptions he{.kernel_initializer = ls::he_uniform};
  check(largest<ls::Sequential<ls::Input<60>, ls::Dense<40, ls::Linear, he>>>(),
        std::sqrt(6.0 / 60));
  using Convolution = ls::Sequential<ls::Input<5, 5, 4>, ls::Conv2D<8, 3>, ls::Flatten>;
  check(largest<Convolution>(), std::sqrt(6.0 / (9 * 4 + 9 * 8)));
  CHECK(largest<Convolution>(1) == 0);
  CHECK(largest<ls::Sequential<ls::Input<60>, ls::Dense<40>>>(1) == 0);
}

TEST_CASE(
    "losses: mean over the batch, an empty batch gives 0; probabilities clipped to [1e-7, 1 - "
    "1e-7]; label smoothing y (1 - s) + s / K; Huber delta 1") {
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9); };
  const Tensor<double> none(0, 1);
  CHECK(sum_of_losses(ls::MeanSquaredError{}, none.cview(), none.cview()) == 0);
  CHECK(loss_of(ls::BinaryCrossentropy{}, {0}, {1}) == near(-std::log(1e-7)));
  CHECK(loss_of(ls::BinaryCrossentropy{}, {1}, {0}) == near(-std::log(1e-7)));
  CHECK(loss_of(ls::CategoricalCrossentropy{}, {1, 0}, {0, 1}) == near(-std::log(1e-7)));
  // 0.2 over four classes: 0.85, and 0.05 for each other one.
  CHECK(loss_of(ls::CategoricalCrossentropy{.label_smoothing = 0.2}, {0.1, 0.2, 0.3, 0.4},
                {0, 0, 1, 0}) ==
        near(-0.85 * std::log(0.3) - 0.05 * (std::log(0.1) + std::log(0.2) + std::log(0.4))));
  CHECK(loss_of(ls::BinaryCrossentropy{.label_smoothing = 0.2}, {0.3}, {1}) ==
        near(-0.9 * std::log(0.3) - 0.1 * std::log(0.7)));
  CHECK(loss_of(ls::Huber{}, {0.5}, {0}) == near(0.125));
  CHECK(loss_of(ls::Huber{}, {3}, {0}) == near(1 * 3 - 0.5));

  ls::OneDeviceStrategy alone;
  using Net = ls::Sequential<ls::Input<2>, ls::Dense<1>>;
  auto model = ls::compile<Net, double>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  auto weights = model.get_weights();
  weights[0].values = {1, 0};
  weights[1].values = {0};
  model.set_weights(weights);
  const auto data = ls::from_tensor_slices(ls::Tensor<double>({1, 9, 2, 9, 4, 9}, {3, 2}),
                                           ls::Tensor<double>({0, 0, 0}, {3, 1}));
  CHECK(model.evaluate(data.batch(2), {.verbose = 0}).at("loss") == near((1 + 4 + 16) / 3.0));
}

TEST_CASE(
    "defaults: Conv2D valid, stride 1, dilation 1, groups 1; pool 2 x 2, stride = pool; BatchNorm "
    "momentum .99, eps 1e-3; LayerNorm eps 1e-3") {
  static_assert(std::is_same_v<ls::Conv2D<3, 3>::Output<ls::Shape<7, 6, 2>>, ls::Shape<5, 4, 3>>);
  constexpr ls::Conv2DOptions spelled_out{.stride = 1,
                                          .padding = ls::Padding::valid,
                                          .dilation_rate = 1,
                                          .groups = 1,
                                          .use_bias = true};
  static_assert(std::is_same_v<ls::Conv2D<3, 3>, ls::Conv2D<3, 3, ls::Linear, spelled_out>>);
  static_assert(std::is_same_v<ls::MaxPooling2D<>::Output<ls::Shape<7, 6, 2>>, ls::Shape<3, 3, 2>>);
  static_assert(
      std::is_same_v<ls::AveragePooling2D<>::Output<ls::Shape<7, 6, 2>>, ls::Shape<3, 3, 2>>);
  CHECK(ls::BatchNormalizationOptions{}.momentum == 0.99);
  CHECK(ls::BatchNormalizationOptions{}.epsilon == 1e-3);
  CHECK(ls::LayerNormalizationOptions{}.epsilon == 1e-3);
}

TEST_SUITE_END();
