#include "lockstep/losses/losses.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/confusion_matrix.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/metrics/wrappers.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "losses/loss_testing.hpp"

namespace ls = lockstep;
using lockstep_test::Tensor;

namespace {

auto class_and_box(double weight = 0.5, std::optional<int> ignore_class = {}) {
  return ls::Losses{ls::output_loss<0, 3>(ls::SparseCategoricalCrossentropy{
                        .from_logits = true, .ignore_class = ignore_class}),
                    ls::output_loss<4, 6>(ls::Huber{}, weight)};
}
using ClassAndBox = decltype(class_and_box());
static_assert(ls::Loss<ClassAndBox, ls::Shape<6>, float> &&
              ls::Loss<ClassAndBox, ls::Shape<7>, double>);
static_assert(ClassAndBox::target_size<ls::Shape<6>> == 3);

/// A label and two numbers for each row.
Tensor<double> targets_for(std::size_t rows) {
  Tensor<double> targets = Tensor<double>::random(rows, 3, 2, -2, 2);
  for (std::size_t row = 0; row < rows; ++row) targets(row, 0) = static_cast<double>(row % 3);
  return targets;
}

}  // namespace

TEST_CASE("Losses: the weighted sum of parts; outputs without a loss have no gradient") {
  const Tensor<double> p = Tensor<double>::random(18, 6, 1, -2, 2), y = targets_for(18),
                       gradient(18, 6);
  lockstep_test::check_loss(class_and_box(), p, y);
  std::vector<double> losses(18), of_class(18), of_box(18);
  class_and_box().compute(p.cview(), y.cview(), std::span(losses), gradient.view());
  ls::SparseCategoricalCrossentropy{.from_logits = true}.compute(
      p.cview().part(0, 3), y.cview().part(0, 1), std::span(of_class), ls::TensorView<double>());
  ls::Huber{}.compute(p.cview().part(4, 2), y.cview().part(1, 2), std::span(of_box),
                      ls::TensorView<double>());
  for (std::size_t row = 0; row < 18; ++row) {
    CHECK(losses[row] == doctest::Approx(of_class[row] + 0.5 * of_box[row]).epsilon(1e-14));
    CHECK(gradient(row, 3) == 0);
  }
}

TEST_CASE("Losses: a row that one part ignores counts in the others") {
  const Tensor<double> p = Tensor<double>::random(4, 6, 1, -2, 2), y = targets_for(4),
                       gradient(4, 6);
  y(1, 0) = -1;
  std::vector<double> losses(4), of_box(4);
  class_and_box(2, -1).compute(p.cview(), y.cview(), std::span(losses), gradient.view());
  ls::Huber{}.compute(p.cview().part(4, 2), y.cview().part(1, 2), std::span(of_box),
                      ls::TensorView<double>());
  CHECK(losses[1] == 2 * of_box[1]);
  CHECK(gradient(1, 0) == 0);
  CHECK(gradient(1, 4) != 0);
  CHECK(gradient(0, 0) != 0);
}

TEST_CASE("Losses: description, and weights that make no sense") {
  CHECK(class_and_box().description() ==
        "losses(0-3: sparse_categorical_crossentropy(from_logits=true), 4-6: 0.5 * "
        "huber_loss(delta=1))");
  CHECK_THROWS_WITH_AS(class_and_box(-1).validate(),
                       "losses: the weight of huber_loss is -1; expected at least 0",
                       ls::ConfigurationError);
}

TEST_CASE("OutputMetric: the figures of a part") {
  const Tensor<double> p(2, 6, std::vector<double>{3, 1, 2, 0, 1, 1, 1, 2, 3, 0, 2, 4});
  const Tensor<double> y(2, 3, std::vector<double>{0, 1, 2, 1, 2, 2});
  const auto figure = [&](const auto& metric) {
    std::vector<double> state(metric.state_size(6));
    metric.update(p.cview(), y.cview(), std::span<const double>(), std::span(state));
    return metric.result(state);
  };
  const ls::OutputMetric accuracy{ls::Accuracy{},
                                  {.outputs = {0, 3}, .targets = {0, 1}, .name = "class_accuracy"}};
  CHECK(accuracy.name == "class_accuracy");
  CHECK(figure(accuracy) == 0.5);
  const ls::OutputMetric error{ls::metrics::MeanSquaredError{},
                               {.outputs = {4, 6}, .targets = {1, 3}}};
  CHECK(error.name == "mean_squared_error");
  CHECK(figure(error) == (0.5 + 2) / 2);
  CHECK(error.description() == "outputs 4-6, targets 1-3: mean_squared_error");
  CHECK(ls::OutputMetric{ls::ConfusionMatrix{}, {.outputs = {0, 3}, .targets = {0, 1}}}.state_size(
            6) == 9);
  CHECK_THROWS_AS((void)error.state_size(5), ls::ConfigurationError);
  const ls::OutputMetric beyond{ls::Accuracy{}, {.outputs = {0, 3}, .targets = {3, 4}}};
  CHECK_THROWS_AS((void)figure(beyond), ls::DataError);
}

TEST_CASE("Losses: in fit and evaluate, on replicas, with the figures of the parts") {
  using Net = ls::Sequential<ls::Input<4>, ls::Dense<6>>;
  std::vector<double> x, y;
  for (std::size_t row = 0; row < 21; ++row) {
    for (std::size_t f = 0; f < 4; ++f) x.push_back(std::sin(static_cast<double>(4 * row + f)));
    y.insert(y.end(), {static_cast<double>(row % 3), x[4 * row], x[4 * row + 1] - x[4 * row + 2]});
  }
  const auto data =
      ls::from_tensor_slices(ls::Tensor<double>(x, {21, 4}), ls::Tensor<double>(y, {21, 3}))
          .batch(5);
  ls::MirroredStrategy strategy({.replicas = 2});
  using ClassLoss = ls::metrics::SparseCategoricalCrossentropy;
  auto model = ls::compile<Net, double>(
      strategy, {.seed = 1}, class_and_box(), ls::SGD{.learning_rate = 0.1},
      ls::OutputMetric{ClassLoss{.loss = {.from_logits = true}},
                       {.outputs = {0, 3}, .targets = {0, 1}, .name = "class"}},
      ls::OutputMetric{ls::MeanLoss{ls::Huber{}},
                       {.outputs = {4, 6}, .targets = {1, 3}, .name = "box"}});
  const ls::History history = model.fit(data, {.epochs = 3, .verbose = 0});
  CHECK(history["loss"].back() < history["loss"].front());
  CHECK(history["loss"].back() ==
        doctest::Approx(history["class"].back() + 0.5 * history["box"].back()).epsilon(1e-12));
  const ls::Logs logs = model.evaluate(data, {.verbose = 0});
  CHECK(logs.at("loss") == doctest::Approx(logs.at("class") + 0.5 * logs.at("box")).epsilon(1e-12));
}
