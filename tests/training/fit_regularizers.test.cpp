// Penalties and constraints in fit and evaluate: Keras's figures, with any number of replicas.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "golden/regularizers.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::regularizers;
using ls::DenseOptions;

namespace {

using Regularized = ls::Sequential<
    ls::Input<4>,
    ls::Dense<5, ls::Tanh,
              DenseOptions{.kernel_regularizer = ls::L1L2{.l1 = 0.01, .l2 = 0.02},
                           .bias_regularizer = ls::L2{0.1}}>,
    ls::Dense<3, ls::Linear,
              DenseOptions{.kernel_regularizer = ls::L1{0.02}, .bias_regularizer = ls::L2{}}>>;

using Activity = ls::Sequential<ls::Input<4>, ls::Dense<5, ls::Tanh>,
                                ls::ActivityRegularization<ls::Regularizer{.l1 = 0.03, .l2 = 0.05}>,
                                ls::Dense<3>>;

using Constrained = ls::Sequential<
    ls::Input<4>,
    ls::Dense<5, ls::Tanh,
              DenseOptions{.kernel_constraint = ls::MaxNorm{0.8}, .bias_constraint = ls::NonNeg{}}>,
    ls::Dense<3, ls::Linear,
              DenseOptions{.kernel_constraint = ls::UnitNorm{.axis = 1},
                           .bias_constraint =
                               ls::MinMaxNorm{.min_value = 0.1, .max_value = 0.4, .rate = 0.5}}>>;

struct Results {
  std::vector<double> losses, evaluated, weights;
};

template <class Net, class Strategy>
Results run(Strategy& strategy) {
  const std::vector<double> x(std::begin(golden::x), std::end(golden::x));
  const std::vector<double> y(std::begin(golden::y), std::end(golden::y));
  const auto data =
      ls::from_tensor_slices(ls::Tensor<double>(x, {8, 4}), ls::Tensor<double>(y, {8, 3})).batch(4);
  auto model = ls::compile<Net, double>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                        ls::SGD{.learning_rate = 0.25});
  auto weights = model.get_weights();
  const double* next = golden::start;
  for (auto& weight : weights)
    for (double& value : weight.values) value = *next++;
  model.set_weights(weights);
  Results results;
  results.evaluated.push_back(model.evaluate(data, {.verbose = 0}).at("loss"));
  results.losses = model.fit(data, {.epochs = 3, .verbose = 0})["loss"];
  results.evaluated.push_back(model.evaluate(data, {.verbose = 0}).at("loss"));
  for (const auto& weight : model.get_weights())
    results.weights.insert(results.weights.end(), weight.values.begin(), weight.values.end());
  return results;
}

double worst_error(std::span<const double> expected, const std::vector<double>& got) {
  REQUIRE(expected.size() == got.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(expected[i] - got[i]));
  return worst;
}

/// One device, two threads, two workers: Keras's figures, and the same bits for both pairs.
template <class Net>
void check(std::span<const double> losses, std::span<const double> evaluated,
           std::span<const double> weights, double tolerance) {
  const auto check_results = [&](const Results& results) {
    CHECK(worst_error(losses, results.losses) < tolerance);
    CHECK(worst_error(evaluated, results.evaluated) < tolerance);
    CHECK(worst_error(weights, results.weights) < tolerance);
  };
  ls::OneDeviceStrategy one;
  check_results(run<Net>(one));
  ls::MirroredStrategy two({.replicas = 2});
  const Results of_threads = run<Net>(two);
  check_results(of_threads);
  Results of_workers[2];
  for (const std::string& failure : lockstep_test::run_workers(
           2, [&](auto& strategy) { of_workers[strategy.worker_index()] = run<Net>(strategy); }))
    CHECK(failure == "");
  for (const Results& results : of_workers) {
    CHECK(results.weights == of_threads.weights);
    CHECK(results.losses == of_threads.losses);
  }
}

}  // namespace

TEST_CASE("fit: penalties of variables count once, in the loss and in the gradient") {
  check<Regularized>(golden::regularized::losses, golden::regularized::evaluated,
                     golden::regularized::weights,
                     2e-8);  // (Keras has the factors in float32.)
}

TEST_CASE("fit: penalties of outputs, in the mean over the samples") {
  check<Activity>(golden::activity::losses, golden::activity::evaluated, golden::activity::weights,
                  2e-9);
}

TEST_CASE(
    "train_on_batch: penalties of outputs where tokens are masked: these count in the penalty and "
    "not in the loss, as in Keras, however they are spread over replicas") {
  namespace values = golden::masked_activity;
  using Net =
      ls::Sequential<ls::Input<3>, ls::Embedding<4, 5, ls::EmbeddingOptions{.mask_zero = true}>,
                     ls::ActivityRegularization<ls::Regularizer{.l1 = 0.03, .l2 = 0.05}>,
                     ls::Dense<2>>;
  const auto check_on = [](auto& strategy) {
    auto model = ls::compile<Net, double>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                          ls::SGD{.learning_rate = 0.25});
    auto weights = model.get_weights();
    const double* next = values::start;
    for (auto& weight : weights)
      for (double& value : weight.values) value = *next++;
    model.set_weights(weights);
    const auto batch = [](std::size_t number) {
      const double* const ids = values::ids + 12 * number;
      const double* const targets = values::targets + 24 * number;
      return std::pair(ls::Tensor<double>(std::vector<double>(ids, ids + 12), {4, 3}),
                       ls::Tensor<double>(std::vector<double>(targets, targets + 24), {4, 3, 2}));
    };
    std::vector<double> evaluated, losses, trained;
    for (const std::size_t number : {0u, 1u}) {
      const auto [x, y] = batch(number);
      evaluated.push_back(model.test_on_batch(x, y).at("loss"));
    }
    for (const std::size_t number : {0u, 1u, 0u, 1u}) {
      const auto [x, y] = batch(number);
      losses.push_back(model.train_on_batch(x, y).at("loss"));
    }
    for (const auto& weight : model.get_weights())
      trained.insert(trained.end(), weight.values.begin(), weight.values.end());
    CHECK(worst_error(values::evaluated, evaluated) < 2e-8);  // (Keras has the factors in float32.)
    CHECK(worst_error(values::losses, losses) < 2e-8);
    CHECK(worst_error(values::weights, trained) < 2e-8);
  };
  ls::OneDeviceStrategy one;
  check_on(one);
  ls::MirroredStrategy two({.replicas = 2}), five({.replicas = 5});  // (one has no samples)
  check_on(two);
  check_on(five);
  for (const std::string& failure : lockstep_test::run_workers(2, check_on)) CHECK(failure == "");
}

TEST_CASE("fit: constraints hold after each update") {
  check<Constrained>(golden::constrained::losses, golden::constrained::evaluated,
                     golden::constrained::weights, 1e-12);
}
