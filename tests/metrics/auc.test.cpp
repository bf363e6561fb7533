#include "lockstep/metrics/auc.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "golden/binary.hpp"
#include "lockstep/core/error.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::Tensor;
using ls::AUC;

namespace {

using State = std::array<double, AUC::state_size>;

template <class T>
State state_of(const AUC& auc, const Tensor<T>& predictions, const Tensor<T>& targets,
               const std::vector<T>& weights = {}) {
  State state{};
  auc.update(predictions.cview(), targets.cview(), std::span<const T>(weights), std::span<double>(state));
  return state;
}

double area(const AUC& auc, const std::vector<double>& predictions, const std::vector<double>& targets) {
  const std::size_t rows = targets.size();
  return auc.result(state_of(auc, Tensor<double>(rows, 1, predictions), Tensor<double>(rows, 1, targets)));
}

}  // namespace

TEST_CASE_TEMPLATE("AUC: golden values", T, float, double) {
  const Tensor<T> probabilities(golden::binary_rows, golden::binary_outputs, golden::binary_probabilities);
  const Tensor<T> logits(golden::binary_rows, golden::binary_outputs, golden::binary_logits);
  const Tensor<T> targets(golden::binary_rows, golden::binary_outputs, golden::binary_classes);
  std::vector<T> weights;
  for (const double weight : golden::binary_weights) weights.push_back(static_cast<T>(weight));
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-6); };  // Keras's are in float
  CHECK(AUC{}.result(state_of(AUC{}, probabilities, targets)) == near(golden::auc));
  CHECK(AUC{}.result(state_of(AUC{}, probabilities, targets, weights)) == near(golden::auc_weighted));
  CHECK(AUC{}.result(state_of(AUC{.from_logits = true}, logits, targets)) == near(golden::auc));
}

TEST_CASE("AUC: what is known") {
  CHECK(area({}, {0.1, 0.4, 0.6, 0.9}, {0, 0, 1, 1}) == 1);
  CHECK(area({}, {0.9, 0.6, 0.4, 0.1}, {0, 0, 1, 1}) == 0);
  CHECK(area({}, {0.5, 0.5, 0.5, 0.5}, {0, 0, 1, 1}) == 0.5);
  CHECK(area({}, {0, 0.5, 0.3, 0.9}, {0, 0, 1, 1}) == 0.75);  // Keras's example
  CHECK(area({}, {0, 1, 0, 1}, {0, 1, 0, 1}) == 1);
  CHECK(area({.from_logits = true}, {-900, -1, 1, 900}, {0, 0, 1, 1}) == 1);
  CHECK(area({}, {0.5, 0.7}, {1, 1}) == 0);
  CHECK(area({}, {}, {}) == 0);
}

TEST_CASE("AUC: the states of parts add up to that of all") {
  const Tensor<double> first(2, 1, std::vector<double>{0.2, 0.7}), second(2, 1, std::vector<double>{0.4, 0.6});
  const Tensor<double> targets(2, 1, std::vector<double>{0, 1});
  State sum = state_of({}, first, targets);
  const State more = state_of({}, second, targets);
  for (std::size_t i = 0; i < sum.size(); ++i) sum.at(i) += more.at(i);
  CHECK(AUC{}.result(sum) == area({}, {0.2, 0.7, 0.4, 0.6}, {0, 1, 0, 1}));
}

TEST_CASE("AUC: what is refused, and NaN") {
  CHECK_THROWS_WITH_AS(
      (void)area({}, {1.5}, {1}),
      "AUC: a prediction is 1.5; expected a probability: end the model with a sigmoid, or set .from_logits",
      ls::DataError);
  CHECK_THROWS_WITH_AS((void)state_of({}, Tensor<float>(2, 3), Tensor<float>(2, 1)),
                       "AUC: the model has 3 outputs and the data 1 target values per sample; expected as many",
                       ls::DataError);
  CHECK(area({}, {std::numeric_limits<double>::quiet_NaN(), 0.5}, {0, 1}) == 1);
}
