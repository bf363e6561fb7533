// Weights of samples and classes in fit and evaluate.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "golden/weights.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/filter.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/wrappers.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
namespace keras = lockstep_test::golden::weights;
using namespace lockstep_test;

namespace {

using Net =
    ls::Sequential<ls::Input<keras::features>,
                   ls::Dense<keras::classes, ls::Linear, ls::DenseOptions{.use_bias = false}>>;
constexpr ls::SparseCategoricalCrossentropy loss{.from_logits = true};

template <std::size_t N>
std::vector<double> list(const double (&values)[N]) {
  return {values, values + N};
}
ls::Tensor<double> inputs() { return {list(keras::x), {keras::rows, keras::features}}; }
ls::Tensor<double> labels() { return list(keras::labels); }
ls::Tensor<double> weights() { return list(keras::sample_weights); }
ls::Tensor<float> float_weights() { return ls::detail::weights_tensor(weights()); }

/// The logits are linear in few numbers, so that all figures can be compared with Keras's.
template <class S>
class Trained {
 public:
  explicit Trained(S& strategy)
      : model_(ls::compile<Net, double>(strategy, {.seed = 1}, loss, ls::SGD{.learning_rate = 0.5},
                                        ls::Accuracy{}, ls::Weighted{ls::Accuracy{}})) {
    auto kernel = model_.get_weights();
    kernel[0].values = list(keras::kernel);
    model_.set_weights(kernel);
  }

  [[nodiscard]] auto& model() { return model_; }

  void check(const ls::History& history, std::span<const double> expected,
             std::span<const double> evaluated, std::span<const double> kernel) {
    constexpr std::array keys = {"loss", "accuracy", "weighted_accuracy"};
    const auto near = [](double value) {
      return doctest::Approx(value).epsilon(1e-6);
    };  // Keras's are in float
    const ls::Logs logs = model_.evaluate(
        inputs(), labels(), {.batch_size = 8, .verbose = 0, .sample_weight = float_weights()});
    for (std::size_t key = 0; key < keys.size(); ++key) {
      CAPTURE(key);
      for (std::size_t epoch = 0; epoch < keras::epochs; ++epoch)
        CHECK(history[keys[key]][epoch] == near(expected[key * keras::epochs + epoch]));
      CHECK(logs.at(keys[key]) == near(evaluated[key]));
    }
    const auto trained = model_.get_weights();
    for (std::size_t i = 0; i < kernel.size(); ++i) CHECK(trained[0].values[i] == near(kernel[i]));
  }

  void check_both() {
    const auto first = model_.get_weights();
    check(model_.fit(inputs(), labels(),
                     {.batch_size = 8,
                      .epochs = keras::epochs,
                      .verbose = 0,
                      .shuffle = false,
                      .sample_weight = float_weights()}),
          keras::by_sample_history, keras::by_sample_evaluated, keras::by_sample_kernel);
    model_.set_weights(first);
    check(model_.fit(ls::from_tensor_slices(inputs(), labels()).batch(8),
                     {.epochs = keras::epochs, .verbose = 0, .class_weight = {{0, 0.5}, {2, 3.0}}}),
          keras::by_class_history, keras::by_class_evaluated, keras::by_class_kernel);
  }

 private:
  ls::Model<Net, double, S, ls::SparseCategoricalCrossentropy, ls::SGD, ls::Accuracy,
            ls::Weighted<ls::Accuracy>>
      model_;
};

}  // namespace

TEST_SUITE_BEGIN("Keras: fit and evaluate and predict");

TEST_CASE(
    "class_weight, sample_weight: Keras's figures, on one device, on replicas and on workers") {
  for (const int replicas : {1, 3}) {
    CAPTURE(replicas);
    ls::MirroredStrategy strategy({.replicas = replicas});
    Trained(strategy).check_both();
  }
  const auto failures =
      run_workers(2, [](WorkerStrategy& strategy) { Trained(strategy).check_both(); });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("sample_weight: through the stages of a dataset, and with validation data of its own") {
  ls::MirroredStrategy strategy({.replicas = 2});
  Trained trained(strategy);
  auto& model = trained.model();
  const auto first = model.get_weights();
  const auto data = ls::from_tensor_slices(inputs(), labels(), weights());
  CHECK(data.weight_size() == 1);
  const ls::FitOptions options{.epochs = 2, .verbose = 0, .validation_data = data.batch(8)};
  const ls::History plain = model.fit(data.batch(8), options);
  const auto kernel = model.get_weights()[0].values;
  CHECK(plain["val_loss"].back() ==
        doctest::Approx(model.evaluate(data.batch(5), {.verbose = 0}).at("loss")));
  // The samples as they are, in another type: weights go with them.
  model.set_weights(first);
  const auto mapped =
      data.map([](auto& sample) { CHECK(sample.y.size() == sample.weights.size()); })
          .map(
              [](const auto& in, auto& out) {
                std::copy(in.x.begin(), in.x.end(), out.x.begin());
                out.y[0] = in.y[0];
              },
              {.sample_size = 4, .target_size = 1})
          .filter([](const ls::Sample<const double>& sample) { return sample.weights[0] >= 0; })
          .batch(8)
          .prefetch(1);
  const ls::History again = model.fit(mapped, options);
  CHECK(again["loss"] == plain["loss"]);
  CHECK(model.get_weights()[0].values == kernel);
  // train_on_batch takes them as a third array; a weight of 0 takes a sample out of the gradient.
  model.set_weights(first);
  model.train_on_batch(inputs(), labels(), std::vector<double>(keras::rows, 0.0));
  CHECK(model.get_weights()[0].values == first[0].values);
  CHECK(model.test_on_batch(inputs(), labels(), weights()).at("loss") > 0);
}

TEST_CASE("class_weight and sample_weight are multiplied, and a map can set weights") {
  ls::MirroredStrategy strategy({.replicas = 1});
  Trained trained(strategy);
  auto& model = trained.model();
  const auto first = model.get_weights();
  const auto data = ls::from_tensor_slices(inputs(), labels(), weights());
  const ls::History both = model.fit(data.batch(8), {.verbose = 0, .class_weight = {{1, 4.0}}});
  model.set_weights(first);
  const auto product = data.map(
      [](const auto& in, auto& out) {
        std::copy(in.x.begin(), in.x.end(), out.x.begin());
        out.y[0] = in.y[0];
        CHECK(out.weights[0] == 1);
        out.weights[0] = in.weights[0] * (in.y[0] == 1 ? 4 : 1);
      },
      {.sample_size = 4, .target_size = 1, .weight_size = 1});
  CHECK(model.fit(product.batch(8), {.verbose = 0})["loss"] == both["loss"]);
}

TEST_CASE("sample_weight: what is not a number is named, and what is not used does no harm") {
  ls::MirroredStrategy strategy({.replicas = 1});
  Trained trained(strategy);
  auto& model = trained.model();
  std::vector<double> values(keras::rows, 1.0);
  values[3] = std::nan("");
  const auto bad = ls::from_tensor_slices(inputs(), labels(), values).batch(8);
  CHECK(contains(
      message_of<ls::Error>([&] { model.fit(bad, {.verbose = 0, .stop_on_non_finite = true}); }),
      "the sample weights, sample 3"));
  CHECK(model.predict(bad).rows() == keras::rows);
}

TEST_CASE("class_weight, sample_weight: what makes no sense is refused before any work") {
  ls::MirroredStrategy strategy({.replicas = 1});
  Trained trained(strategy);
  auto& model = trained.model();
  const auto data = ls::from_tensor_slices(inputs(), labels()).batch(8);
  const auto refusal = [&](const ls::FitOptions& options) {
    return message_of<ls::ConfigurationError>([&] { model.fit(data, options); });
  };
  CHECK(contains(refusal({.class_weight = {{-1, 2.0}}}), "class_weight has the class -1"));
  CHECK(contains(refusal({.class_weight = {{1, -2.0}}}), "class_weight of class 1 is -2"));
  CHECK(contains(refusal({.class_weight = {{1, 2.0}, {1, 2.0}}}),
                 "class_weight lists the class 1 twice"));
  CHECK(contains(refusal({.sample_weight = float_weights()}), "sample_weight is for plain arrays"));
  CHECK(contains(message_of<ls::ConfigurationError>([&] {
                   model.evaluate(data, {.verbose = 0, .sample_weight = float_weights()});
                 }),
                 "evaluate: sample_weight is for plain arrays"));
  CHECK(contains(
      message_of<ls::DataError>([&] {
        model.fit(inputs(), labels(), {.verbose = 0, .sample_weight = std::vector<float>{1, 2}});
      }),
      "every sample needs its weight, got 22 samples (22, 4) and 2 weights (2)"));
  const ls::Tensor<float> two(std::vector<float>(2 * keras::rows, 1.0F), {keras::rows, 2});
  CHECK(contains(message_of<ls::DataError>(
                     [&] { model.fit(inputs(), labels(), {.verbose = 0, .sample_weight = two}); }),
                 "there are 2 sample weights for each sample; expected 1"));
}

TEST_CASE("class_weight is compared between workers") {
  const auto failures = run_workers(2, [](WorkerStrategy& strategy) {
    const double weight = strategy.is_chief() ? 2 : 3;
    Trained(strategy).model().fit(ls::from_tensor_slices(inputs(), labels()).batch(8),
                                  {.verbose = 0, .class_weight = {{1, weight}}});
  });
  CHECK(contains(failures[0] + failures[1], "class_weight: {1: 3}"));
}

TEST_CASE("sample_weight: one for each token of a sequence, or one for all of them") {
  constexpr std::size_t samples = 5, positions = 3, features = 2;
  using Tagger = ls::Sequential<ls::Input<positions, features>, ls::ToSequence,
                                ls::Dense<2, ls::Linear, ls::DenseOptions{.use_bias = false}>>;
  ls::MirroredStrategy strategy({.replicas = 2});
  auto model = ls::compile<Tagger, double>(strategy, {.seed = 3}, loss, ls::SGD{});
  std::vector<double> x, y, of_token, of_sample, spread;
  for (std::size_t i = 0; i < samples * positions; ++i) {
    for (std::size_t f = 0; f < features; ++f)
      x.push_back(std::sin(static_cast<double>(3 * i + f)));
    y.push_back(static_cast<double>(i % 2));
    of_token.push_back(static_cast<double>(i % 4));
    spread.push_back(static_cast<double>(1 + i / positions));
  }
  for (std::size_t s = 0; s < samples; ++s) of_sample.push_back(static_cast<double>(1 + s));
  const ls::Tensor<double> inputs_of(x, {samples, positions, features}),
      labels_of(y, {samples, positions});
  const auto loss_with = [&](const ls::Tensor<double>& sample_weight) {
    return model
        .evaluate(ls::from_tensor_slices(inputs_of, labels_of, sample_weight).batch(2),
                  {.verbose = 0})
        .at("loss");
  };
  const auto logits = model.predict(inputs_of);
  double expected = 0;
  for (std::size_t i = 0; i < samples * positions; ++i) {
    const auto row = static_cast<Eigen::Index>(i / positions),
               place = static_cast<Eigen::Index>(2 * (i % positions));
    const double difference =
        logits(row, place + (i % 2 == 0 ? 1 : 0)) - logits(row, place + (i % 2 == 0 ? 0 : 1));
    expected +=
        of_token[i] * std::log1p(std::exp(difference)) / static_cast<double>(samples * positions);
  }
  CHECK(loss_with({of_token, {samples, positions}}) == doctest::Approx(expected).epsilon(1e-12));
  CHECK(loss_with(of_sample) ==
        doctest::Approx(loss_with({spread, {samples, positions}})).epsilon(1e-12));
}

TEST_SUITE_END();
