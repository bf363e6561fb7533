#include "lockstep/metrics/accuracies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "golden/binary.hpp"
#include "lockstep/core/error.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::Tensor;
using ls::BinaryAccuracy;

namespace {

using State = std::array<double, ls::Accuracy::state_size>;

template <class T>
State state_of(const Tensor<T>& predictions, const Tensor<T>& targets) {
  State state{};
  ls::Accuracy{}.update(predictions.cview(), targets.cview(), {}, std::span<double>(state));
  return state;
}

}  // namespace

TEST_CASE_TEMPLATE("Accuracy: sparse categorical for labels and several outputs", T, float,
                   double) {
  const Tensor<T> predictions(4, 3, std::vector<T>{0, 1, 2, 5, 1, 2, -3, -1, -2, 1, 1, 0});
  const Tensor<T> labels(
      4, 1, std::vector<T>{2, 0, 0, 0});  // the last: the first of two equal outputs counts
  CHECK(state_of(predictions, labels) == State{3, 4});
}

TEST_CASE_TEMPLATE("Accuracy: categorical for targets as wide as the output", T, float, double) {
  const Tensor<T> predictions(3, 2, std::vector<T>{0, 1, 5, 1, -3, -4});
  const Tensor<T> targets(3, 2, std::vector<T>{0, 1, 0, 1, 1, 0});
  CHECK(state_of(predictions, targets) == State{2, 3});
}

TEST_CASE_TEMPLATE("Accuracy: binary with threshold 0.5 for one output", T, float, double) {
  const Tensor<T> predictions(5, 1, std::vector<T>{T(0.5), T(0.51), T(0.2), T(0.9), T(-3)});
  const Tensor<T> targets(5, 1, std::vector<T>{0, 1, 1, 1, 0});
  CHECK(state_of(predictions, targets) == State{4, 5});
}

TEST_CASE_TEMPLATE("Accuracy: a row counts as often as its weight says", T, float, double) {
  const Tensor<T> predictions(4, 3, std::vector<T>{0, 1, 2, 5, 1, 2, -3, -1, -2, 1, 1, 0});
  const Tensor<T> labels(4, 1, std::vector<T>{2, 0, 0, 0});
  const std::vector<T> weights{1, 0, T(0.5), 2};
  State state{};
  ls::Accuracy{}.update(predictions.cview(), labels.cview(), std::span<const T>(weights),
                        std::span<double>(state));
  CHECK(state == State{3, 3.5});
}

TEST_CASE("Accuracy: other widths are an error") {
  State state{};
  const Tensor<float> predictions(2, 10), targets(2, 3);
  CHECK_THROWS_WITH_AS(
      ls::Accuracy{}.update(predictions.cview(), targets.cview(), {}, std::span<double>(state)),
      "Accuracy: the model has 10 outputs and the data 3 target values per sample; expected 1 or "
      "10",
      ls::DataError);
}

TEST_CASE("Accuracy: states of parts add up, and padding does not count") {
  const Tensor<float> all = Tensor<float>::random(37, 10, 1, -1, 1), labels = Tensor<float>(37, 1);
  for (std::size_t i = 0; i < 37; ++i) labels(i, 0) = static_cast<float>(i % 10);
  State parts{};
  for (std::size_t begin = 0; begin < 37; begin += 5) {
    const std::size_t samples = std::min<std::size_t>(5, 37 - begin);
    const Tensor<float> part(samples, 10), part_labels(samples, 1);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t f = 0; f < 10; ++f) part(i, f) = all(begin + i, f);
      part_labels(i, 0) = labels(begin + i, 0);
    }
    ls::Accuracy{}.update(part.cview(), part_labels.cview(), {}, std::span<double>(parts));
  }
  CHECK(parts == state_of(all, labels));
  CHECK(parts[1] == 37);
}

TEST_CASE("Accuracy: the result is a share, 0 without samples") {
  CHECK(ls::Accuracy{}.result(State{3, 4}) == 0.75);
  CHECK(ls::Accuracy{}.result(State{0, 0}) == 0.0);
  CHECK(state_of(Tensor<float>(0, 10), Tensor<float>(0, 1)) == State{0, 0});
}

namespace {

using State = std::array<double, BinaryAccuracy::state_size>;

template <class T>
State state_of(const BinaryAccuracy& accuracy, const Tensor<T>& predictions,
               const Tensor<T>& targets, const std::vector<T>& weights = {}) {
  State state{};
  accuracy.update(predictions.cview(), targets.cview(), std::span<const T>(weights),
                  std::span<double>(state));
  return state;
}

}  // namespace

TEST_CASE_TEMPLATE("BinaryAccuracy: golden values", T, float, double) {
  const Tensor<T> probabilities(golden::binary_rows, golden::binary_outputs,
                                golden::binary_probabilities);
  const Tensor<T> targets(golden::binary_rows, golden::binary_outputs, golden::binary_classes);
  std::vector<T> weights;
  for (const double weight : golden::binary_weights) weights.push_back(static_cast<T>(weight));
  CHECK(BinaryAccuracy{}.result(state_of({}, probabilities, targets)) ==
        doctest::Approx(golden::binary_accuracy).epsilon(1e-6));
  CHECK(BinaryAccuracy{}.result(state_of({.threshold = 0.3}, probabilities, targets, weights)) ==
        doctest::Approx(golden::binary_accuracy_weighted).epsilon(1e-6));
}

TEST_CASE("BinaryAccuracy: above the threshold, not at it") {
  const Tensor<float> predictions(4, 1, std::vector<float>{0.5F, 0.51F, -1, 1}),
      targets(4, 1, std::vector<float>{0, 1, 0, 0});
  CHECK(state_of({}, predictions, targets) == State{3, 4});
  CHECK(state_of({.threshold = 0}, predictions, targets) == State{2, 4});
  CHECK(BinaryAccuracy{}.result(State{}) == 0);
}

TEST_CASE("BinaryAccuracy: other widths are an error") {
  CHECK_THROWS_WITH_AS((void)state_of({}, Tensor<float>(2, 10), Tensor<float>(2, 1)),
                       "BinaryAccuracy: the model has 10 outputs and the data 1 target values per "
                       "sample; expected as many",
                       ls::DataError);
}
