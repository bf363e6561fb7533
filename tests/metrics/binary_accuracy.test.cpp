#include "lockstep/metrics/binary_accuracy.hpp"

#include <doctest/doctest.h>

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
