// A small CNN of the kind that CIFAR-10 is trained with: on one replica and on several, saved and
// resumed, summarised.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/net_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr ls::Conv2DOptions same{.padding = ls::Padding::same};

template <bool Synchronized>
using Cnn = ls::Sequential<
    ls::Input<8, 8, 3>, ls::Conv2D<6, 3, ls::ReLU, same>,
    ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{.momentum = 0.9,
                                                                     .synchronized = Synchronized}>,
    ls::MaxPooling2D<>, ls::Conv2D<8, 3, ls::Linear, same>,
    ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{.momentum = 0.9,
                                                                     .synchronized = Synchronized}>,
    ls::Activation<ls::ReLU>, ls::Dropout<0.25>, ls::MaxPooling2D<>, ls::Flatten, ls::Dense<3>>;

/// Noisy images, in which one corner has a colour of its own for each class.
struct Images {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x;
  std::vector<int> y;

  explicit Images(int samples) : x(samples, 8 * 8 * 3), y(static_cast<std::size_t>(samples)) {
    ls::RandomStream random{ls::RandomKey(3)};
    for (int i = 0; i < samples; ++i) {
      const int label = static_cast<int>(random.below(3));
      y[static_cast<std::size_t>(i)] = label;
      for (int f = 0; f < 8 * 8 * 3; ++f) {
        const bool is_marked = f / 24 < 4 && f / 3 % 8 < 4 && f % 3 == label;
        x(i, f) = static_cast<float>(random.uniform(0, 1) + (is_marked ? 0.5 : 0));
      }
    }
  }
};

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("power failure") {}
};

struct Run {
  int replicas = 1;
  std::int64_t batch = 18;
  int samples = 64;
  int epochs = 3;
  std::uint64_t seed = 5;
  std::string backup_dir = {};  ///< saved every second step
  std::int64_t fail_before = -1;
};

struct Result {
  std::vector<double> losses;  ///< of every step
  std::uint32_t crc = 0;
  std::vector<float> predictions;
  std::vector<ls::Weight<float>> weights;
};

template <class Net>
Result train(const Run& run) {
  const Images images(run.samples);
  ls::MirroredStrategy strategy({.replicas = run.replicas});
  auto model = ls::compile<Net>(strategy, {.seed = run.seed},
                                ls::SparseCategoricalCrossentropy{.from_logits = true},
                                ls::SGD{.learning_rate = 0.05, .momentum = 0.5}, ls::Accuracy{});
  Recorder recorder;
  recorder.at_batch_begin = [&](ls::Training& training, std::int64_t) {
    if (training.iterations() == run.fail_before) throw Interrupted();
  };
  const auto data =
      ls::from_tensor_slices(images.x, images.y).shuffle(run.samples).batch(run.batch);
  const ls::FitOptions options{.epochs = run.epochs, .verbose = 0};
  if (run.backup_dir.empty()) {
    model.fit(data, options, recorder);
  } else {
    ls::BackupAndRestore backup{
        .backup_dir = run.backup_dir, .save_freq = 2, .asynchronous = false};
    model.fit(data, options, recorder, backup);
  }
  Result result;
  for (const ls::Logs& logs : recorder.batch_logs) result.losses.push_back(logs.at("loss"));
  result.crc = model.parameters_crc32c();
  const auto rows = model.predict(images.x, {.batch_size = 7});
  result.predictions.assign(rows.data(), rows.data() + rows.size());
  result.weights = model.get_weights();
  // All that predict needs is in them, on every replica of another model.
  ls::MirroredStrategy two({.replicas = 2});
  auto other = ls::compile<Net>(two, {.seed = run.seed + 1},
                                ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{},
                                ls::Accuracy{});
  other.set_weights(result.weights);
  CHECK(other.predict(images.x, {.batch_size = 7}) == rows);
  return result;
}

template <class Values>
double worst_difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return worst;
}

}  // namespace

TEST_CASE("CNN: gradients of the whole, with all layers") {
  using Small =
      ls::Sequential<ls::Input<4, 4, 2>, ls::Conv2D<3, 3, ls::Tanh, same>, ls::BatchNormalization<>,
                     ls::MaxPooling2D<>, ls::LayerNormalization<>, ls::Dropout<0.25>,
                     ls::AveragePooling2D<2, ls::PoolingOptions{.stride = 1}>,
                     ls::BatchNormalization<>, ls::GlobalAveragePooling2D, ls::Dense<2>>;
  using First = ls::Sequential<ls::Input<2, 2, 3>, ls::BatchNormalization<>,
                               ls::GlobalAveragePooling2D, ls::Dense<2>>;
  NetRunner<Small> net;
  for (const std::size_t samples : {1u, 5u, 16u, 17u}) {
    CAPTURE(samples);
    net.run(samples);
    for (const double gradient : net.gradients()) CHECK(std::isfinite(gradient));
  }
  const auto check = [](auto& runner) {
    runner.context().training = true;
    runner.run(5);
    const std::vector<double> gradients = runner.gradients();
    std::size_t next = 0;
    double worst = 0;
    for (const auto slice : runner.parameter_slices())
      for (double& value : slice) {
        const double at = value, step = 1e-6;
        value = at + step;
        const double above = runner.loss();
        value = at - step;
        const double below = runner.loss();
        value = at;
        worst = std::max(worst, std::abs((above - below) / (2 * step) - gradients[next++]));
      }
    CHECK(worst < 1e-6);
  };
  check(net);
  NetRunner<First> first;
  check(first);
}

TEST_CASE("CNN: learns, alone and on threads") {
  for (const int replicas : {1, 2}) {
    const Result result = train<Cnn<false>>({.replicas = replicas, .epochs = 12});
    CHECK(result.losses.back() < 0.5 * result.losses.front());
    const Images images(64);
    int right = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const float* row = result.predictions.data() + 3 * i;
      right += std::max_element(row, row + 3) - row == images.y[i] ? 1 : 0;
    }
    CHECK(right > 50);
  }
}

TEST_CASE("CNN: get_weights has moving statistics too, in Keras's order") {
  std::vector<std::string> names;
  for (const auto& weight : train<Cnn<false>>({.epochs = 1}).weights) names.push_back(weight.name);
  CHECK(names == std::vector<std::string>{
                     "conv2d/kernel", "conv2d/bias", "batch_normalization/gamma",
                     "batch_normalization/beta", "batch_normalization/moving_mean",
                     "batch_normalization/moving_variance", "conv2d_1/kernel", "conv2d_1/bias",
                     "batch_normalization_1/gamma", "batch_normalization_1/beta",
                     "batch_normalization_1/moving_mean", "batch_normalization_1/moving_variance",
                     "dense/kernel", "dense/bias"});
}

TEST_CASE("CNN: with synchronised statistics, N replicas equal one, also in what they predict") {
  const Result one = train<Cnn<true>>({});
  for (const int replicas : {2, 3}) {
    CAPTURE(replicas);
    const Result several = train<Cnn<true>>({.replicas = replicas});
    CHECK(worst_difference(several.losses, one.losses) < 1e-5);
    CHECK(worst_difference(several.predictions, one.predictions) < 1e-4);
  }
}

TEST_CASE("CNN: a replica that never has samples changes nothing") {
  const Run run{.batch = 1, .samples = 12};
  for (const bool synchronized : {false, true}) {
    const auto result_of = [&](int replicas) {
      Run on = run;
      on.replicas = replicas;
      return synchronized ? train<Cnn<true>>(on) : train<Cnn<false>>(on);
    };
    const Result one = result_of(1), three = result_of(3);
    CHECK(worst_difference(three.losses, one.losses) < 1e-5);
    CHECK(worst_difference(three.predictions, one.predictions) < 1e-4);
  }
}

TEST_CASE("CNN: saved within an epoch and resumed, to the same bits, on several replicas too") {
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    const TemporaryFolder folder;
    const Result whole = train<Cnn<false>>({.replicas = replicas});
    Run cut{.replicas = replicas, .backup_dir = folder.path()};
    cut.fail_before = 7;
    CHECK_THROWS_WITH_AS((void)train<Cnn<false>>(cut), doctest::Contains("power failure"),
                         ls::Error);
    cut.fail_before = -1;
    cut.seed = 99;
    const Result resumed = train<Cnn<false>>(cut);
    CHECK(resumed.losses.size() == 6);
    CHECK(resumed.crc == whole.crc);
    CHECK(resumed.predictions == whole.predictions);
  }
}

TEST_CASE("CNN: the summary is Keras's") {
  CHECK(Cnn<false>::summary() ==
        "Model: \"sequential\"\n"
        "_________________________________________________________________\n"
        " Layer (type)                Output Shape              Param #   \n"
        "=================================================================\n"
        " conv2d (Conv2D)             (None, 8, 8, 6)           168       \n"
        "                                                                 \n"
        " batch_normalization (BatchN  (None, 8, 8, 6)          24        \n"
        " ormalization)                                                   \n"
        "                                                                 \n"
        " max_pooling2d (MaxPooling2D  (None, 4, 4, 6)          0         \n"
        " )                                                               \n"
        "                                                                 \n"
        " conv2d_1 (Conv2D)           (None, 4, 4, 8)           440       \n"
        "                                                                 \n"
        " batch_normalization_1 (Batc  (None, 4, 4, 8)          32        \n"
        " hNormalization)                                                 \n"
        "                                                                 \n"
        " activation (Activation)     (None, 4, 4, 8)           0         \n"
        "                                                                 \n"
        " dropout (Dropout)           (None, 4, 4, 8)           0         \n"
        "                                                                 \n"
        " max_pooling2d_1 (MaxPooling  (None, 2, 2, 8)          0         \n"
        " 2D)                                                             \n"
        "                                                                 \n"
        " flatten (Flatten)           (None, 32)                0         \n"
        "                                                                 \n"
        " dense (Dense)               (None, 3)                 99        \n"
        "                                                                 \n"
        "=================================================================\n"
        "Total params: 763\n"
        "Trainable params: 735\n"
        "Non-trainable params: 28\n"
        "_________________________________________________________________\n");
}
