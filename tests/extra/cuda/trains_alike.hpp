// Models on a device beside the same models on the processor.
#pragma once

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/cuda/on.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"

namespace lockstep_test::on_device {

namespace ls = lockstep;

constexpr ls::Conv2DOptions half{.stride = 2, .padding = ls::Padding::same};
constexpr ls::PoolingOptions overlapping{.stride = 1, .padding = ls::Padding::same};

constexpr ls::DenseOptions bound{.kernel_regularizer = ls::L2{0.01},
                                 .kernel_constraint = ls::MaxNorm{1.5}};

using Mlp = ls::Sequential<ls::Input<24>, ls::Dense<70, ls::Tanh>, ls::Dense<9>,
                           ls::Activation<ls::Sigmoid>, ls::Dropout<0.25>, ls::Dense<3>>;
using Bound = ls::Sequential<ls::Input<24>, ls::Dense<20, ls::ReLU, bound>, ls::Dense<3>>;
using Cnn = ls::Sequential<
    ls::Input<8, 8, 3>, ls::Conv2D<6, 3, ls::ReLU>, ls::BatchNormalization<>,
    ls::Activation<ls::ReLU>, ls::MaxPooling2D<2, overlapping>,
    ls::Conv2D<5, ls::Extent2D{3, 2}, ls::Linear, half>, ls::AveragePooling2D<2, overlapping>,
    ls::BatchNormalization<ls::ReLU, ls::BatchNormalizationOptions{.scale = false}>,
    ls::Dropout<0.1>, ls::Conv2D<4, 1, ls::Tanh>, ls::GlobalAveragePooling2D, ls::Dense<3>>;

/// ResNet's blocks, with the other activations.
using Halve = ls::Residual<
    ls::Sequential<ls::Conv2D<4, 3, ls::LeakyReLU<20>, half>, ls::BatchNormalization<>>,
    ls::Sequential<ls::Conv2D<4, 1, ls::Linear, half>>>;
using ResNet = ls::Sequential<
    ls::Input<6, 6, 3>, ls::Residual<ls::Conv2D<3, 1>, ls::BatchNormalization<ls::ELU>>,
    ls::Activation<ls::ReLU>, Halve, ls::Activation<ls::GELU>, ls::Flatten,
    ls::Repeat<2, ls::Residual<ls::Dense<36, ls::GELUTanh>>>,
    ls::Parallel<ls::Add, ls::Dense<36, ls::SiLU>, ls::Identity, ls::Dense<36>>, ls::Dense<3>>;

constexpr ls::MultiHeadAttentionOptions causal{.use_bias = false, .use_causal_mask = true};
constexpr ls::MultiHeadAttentionOptions other_sizes{.value_dim = 3, .output_shape = 5};
template <bool Center>
using LayerNorm = ls::LayerNormalization<ls::LayerNormalizationOptions{.center = Center}>;
/// GPT's, with dropout.
using GptBlock = ls::Sequential<
    ls::Residual<LayerNorm<false>, ls::MultiHeadAttention<2, 4, causal>, ls::Dropout<0.1>>,
    ls::Residual<LayerNorm<true>, ls::Dense<12, ls::GELU>, ls::Dense<8>>>;
using Gpt = ls::Sequential<ls::Input<6>, ls::TiedHead<ls::Embedding<9, 8>, ls::PositionEmbedding<7>,
                                                      ls::Repeat<2, GptBlock>, LayerNorm<false>>>;
using Tagger =
    ls::Sequential<ls::Input<5>, ls::Embedding<9, 6>, ls::MultiHeadAttention<3, 2, other_sizes>,
                   LayerNorm<true>, ls::Dense<9>>;

/// Ids, and for each of them the one before it.
template <std::size_t Positions, std::size_t Ids>
struct Tokens {
  static constexpr int samples = 5, batch = 3;
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x, y;

  Tokens() : x(samples, Positions), y(samples, Positions) {
    ls::RandomStream random{ls::RandomKey(3)};
    for (Eigen::Index i = 0; i < x.rows(); ++i)
      for (Eigen::Index t = 0; t < x.cols(); ++t) {
        x(i, t) = static_cast<float>(random.below(Ids));
        y(i, t) = x(i, std::max<Eigen::Index>(t - 1, 0));
      }
  }
};

template <std::size_t Features>
struct Data {
  static constexpr int samples = 23, batch = 10;
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x;
  std::vector<int> y;

  explicit Data(int rows = samples) : x(rows, Features), y(static_cast<std::size_t>(rows)) {
    ls::RandomStream random{ls::RandomKey(3)};
    for (int i = 0; i < rows; ++i) {
      const int label = static_cast<int>(random.below(3));
      y[static_cast<std::size_t>(i)] = label;
      for (Eigen::Index f = 0; f < x.cols(); ++f)
        x(i, f) = static_cast<float>(random.uniform(0, 1) + (f % 3 == label ? 0.5 : 0));
    }
  }
};

struct Result {
  std::vector<double> losses;  ///< after each step
  std::vector<float> weights, predictions;
  double accuracy = 0;
};

template <class Net>
auto data_of() {
  using In = typename Net::InputShape;
  using Out = typename Net::template Output<In>;
  if constexpr (ls::is_sequence<Out>)
    return Tokens<In::size, Out::Token::size>();
  else
    return Data<In::size>();
}

template <class Net, class Strategy, class Optimizer>
Result train_with(Strategy& strategy, const Optimizer& optimizer) {
  const auto data = data_of<Net>();
  auto model = ls::compile<Net>(strategy, {.seed = 5},
                                ls::SparseCategoricalCrossentropy{.from_logits = true}, optimizer,
                                ls::Accuracy{});
  Result result;
  const auto note =
      ls::LambdaCallback{.on_train_batch_end = [&](auto&, std::int64_t, const ls::Logs& logs) {
        result.losses.push_back(logs.at("loss"));
      }};
  const auto batches = ls::from_tensor_slices(data.x, data.y).batch(data.batch);
  model.fit(batches, {.epochs = 2, .verbose = 0}, note);
  result.accuracy = model.evaluate(batches, {.verbose = 0}).at("accuracy");
  for (const auto& weight : model.get_weights())
    result.weights.insert(result.weights.end(), weight.values.begin(), weight.values.end());
  const auto predictions = model.predict(batches);
  result.predictions.assign(predictions.data(), predictions.data() + predictions.size());
  return result;
}

template <class Net, class Optimizer>
Result train(const Optimizer& optimizer) {
  ls::OneDeviceStrategy strategy;
  return train_with<Net>(strategy, optimizer);
}

inline void check_close(const std::vector<float>& got, const std::vector<float>& expected,
                        float tolerance) {
  REQUIRE(got.size() == expected.size());
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
  CHECK(worst < tolerance);
}

inline void check_alike(const Result& got, const Result& expected) {
  REQUIRE(got.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-5));
  CHECK(got.accuracy == expected.accuracy);
  check_close(got.weights, expected.weights, 2e-5f);
  check_close(got.predictions, expected.predictions, 5e-5f);
}

/// Twice, with `again` in between: with the same bits.
template <class Device, class Net, class Optimizer, class F>
void check_trains_alike(const Optimizer& optimizer, const F& again) {
  const Result expected = train<Net>(optimizer);
  const Result got = train<ls::On<Device, Net>>(optimizer);
  check_alike(got, expected);
  again();
  const Result second = train<ls::On<Device, Net>>(optimizer);
  CHECK(second.weights == got.weights);
  CHECK(second.predictions == got.predictions);
}

/// Of all layers, activations and optimizers that a device has.
template <class Device, class F>
void check_all_train_alike(const F& again) {
  SUBCASE("dense, SGD") { check_trains_alike<Device, Mlp>(ls::SGD{.learning_rate = 0.1}, again); }
  SUBCASE("dense, momentum and clipping") {
    check_trains_alike<Device, Mlp>(
        ls::SGD{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .clipvalue = 0.01}, again);
  }
  SUBCASE("dense, Adam with moving averages") {
    check_trains_alike<Device, Mlp>(
        ls::Adam{.learning_rate = 0.01, .amsgrad = true, .use_ema = true}, again);
  }
  SUBCASE("a regularizer, a constraint, gradients of two steps") {
    check_trains_alike<Device, Bound>(
        ls::SGD{.learning_rate = 0.1, .gradient_accumulation_steps = 2}, again);
  }
  SUBCASE("convolutions, AdamW and clipping by norm") {
    check_trains_alike<Device, Cnn>(ls::AdamW{.learning_rate = 0.01, .global_clipnorm = 0.1},
                                    again);
  }
  SUBCASE("sums of branches, other activations") {
    check_trains_alike<Device, ResNet>(ls::SGD{.learning_rate = 0.05}, again);
  }
  SUBCASE("a causal transformer with a tied head") {
    check_trains_alike<Device, Gpt>(ls::AdamW{.learning_rate = 0.01}, again);
  }
  SUBCASE("attention that sees all, an embedding, SGD") {
    check_trains_alike<Device, Tagger>(ls::SGD{.learning_rate = 0.5}, again);
  }
  SUBCASE("convolutions, SGD") {
    check_trains_alike<Device, Cnn>(ls::SGD{.learning_rate = 0.1}, again);
  }
}

}  // namespace lockstep_test::on_device
