#include "lockstep/metrics/auc.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "golden/binary.hpp"
#include "lockstep/core/error.hpp"
#include "metrics/metric_testing.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::Tensor;
using ls::AUC;

namespace {

using State = std::array<double, 400>;

template <class T>
State state_of(const AUC& auc, const Tensor<T>& predictions, const Tensor<T>& targets,
               const std::vector<T>& weights = {}) {
  State state{};
  auc.update(predictions.cview(), targets.cview(), std::span<const T>(weights),
             std::span<double>(state));
  return state;
}

double area(const AUC& auc, const std::vector<double>& predictions,
            const std::vector<double>& targets) {
  const std::size_t rows = targets.size();
  return auc.result(
      state_of(auc, Tensor<double>(rows, 1, predictions), Tensor<double>(rows, 1, targets)));
}

}  // namespace

TEST_CASE_TEMPLATE("AUC: golden values", T, float, double) {
  const Tensor<T> probabilities(golden::binary_rows, golden::binary_outputs,
                                golden::binary_probabilities);
  const Tensor<T> logits(golden::binary_rows, golden::binary_outputs, golden::binary_logits);
  const Tensor<T> targets(golden::binary_rows, golden::binary_outputs, golden::binary_classes);
  std::vector<T> weights;
  for (const double weight : golden::binary_weights) weights.push_back(static_cast<T>(weight));
  const auto near = [](double value) {
    return doctest::Approx(value).epsilon(1e-6);
  };  // Keras's are in float
  CHECK(AUC{}.result(state_of(AUC{}, probabilities, targets)) == near(golden::auc));
  CHECK(AUC{}.result(state_of(AUC{}, probabilities, targets, weights)) ==
        near(golden::auc_weighted));
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
  const Tensor<double> first(2, 1, std::vector<double>{0.2, 0.7}),
      second(2, 1, std::vector<double>{0.4, 0.6});
  const Tensor<double> targets(2, 1, std::vector<double>{0, 1});
  State sum = state_of({}, first, targets);
  const State more = state_of({}, second, targets);
  for (std::size_t i = 0; i < sum.size(); ++i) sum.at(i) += more.at(i);
  CHECK(AUC{}.result(sum) == area({}, {0.2, 0.7, 0.4, 0.6}, {0, 1, 0, 1}));
}

TEST_CASE("AUC: what is refused, and NaN") {
  CHECK_THROWS_WITH_AS((void)area({}, {1.5}, {1}),
                       "AUC: a prediction is 1.5; expected a probability: end the model with a "
                       "sigmoid, or set .from_logits",
                       ls::DataError);
  CHECK_THROWS_WITH_AS((void)state_of({}, Tensor<float>(2, 3), Tensor<float>(2, 2)),
                       "AUC: the model has 3 outputs and the data 2 target values per sample; "
                       "expected as many, or one class label",
                       ls::DataError);
  CHECK(area({}, {std::numeric_limits<double>::quiet_NaN(), 0.5}, {0, 1}) == 1);
}

TEST_CASE("AUC: the curves and ways of summation, thresholds and labels, as in Keras") {
  namespace keras = lockstep_test::golden::keras;
  const auto check = [](const AUC& auc, std::span<const double> expected) {
    lockstep_test::check_metric(auc, keras::metric_chances, keras::metric_answers, expected);
  };
  using enum ls::AUCCurve;
  using enum ls::AUCSummationMethod;
  check({.num_thresholds = 20}, keras::auc_roc_interpolation);
  check({.num_thresholds = 20, .summation_method = minoring}, keras::auc_roc_minoring);
  check({.num_thresholds = 20, .summation_method = majoring}, keras::auc_roc_majoring);
  check({.num_thresholds = 20, .curve = pr}, keras::auc_pr_interpolation);
  check({.num_thresholds = 20, .curve = pr, .summation_method = minoring}, keras::auc_pr_minoring);
  check({.num_thresholds = 20, .curve = pr, .summation_method = majoring}, keras::auc_pr_majoring);
  check({.num_thresholds = 20, .curve = prgain}, keras::auc_prgain_interpolation);
  check({.num_thresholds = 20, .curve = prgain, .summation_method = minoring},
        keras::auc_prgain_minoring);
  check({.num_thresholds = 20, .curve = prgain, .summation_method = majoring},
        keras::auc_prgain_majoring);
  check({.thresholds = {0.1, 0.4, 0.45, 0.8}}, keras::auc_thresholds);
  lockstep_test::check_metric(AUC{.curve = pr, .from_logits = true}, keras::metric_logits,
                              keras::metric_labels, keras::auc_logits);
  const Tensor<double> p(keras::metric_rows, keras::metric_classes, keras::metric_chances);
  const Tensor<double> y(keras::metric_rows, keras::metric_classes, keras::metric_answers);
  CHECK(lockstep_test::figure(AUC{.multi_label = true}, p, y) ==
        doctest::Approx(keras::auc_multi_label));
  CHECK(lockstep_test::figure(AUC{.curve = pr, .multi_label = true, .label_weights = {1, 2, 3, 4}},
                              p, y) == doctest::Approx(keras::auc_multi_label_weighted));
}

TEST_CASE("AUC: the figures of Keras's own tests") {
  const Tensor<double> p(4, 1, std::vector<double>{0, 0.5, 0.3, 0.9}),
      y(4, 1, std::vector<double>{0, 0, 1, 1});
  const std::vector<double> weights{1, 2, 3, 4};
  using enum ls::AUCCurve;
  using enum ls::AUCSummationMethod;
  const auto weighted = [&](ls::AUCCurve curve, ls::AUCSummationMethod method) {
    return lockstep_test::figure(
        AUC{.num_thresholds = 3, .curve = curve, .summation_method = method}, p, y, weights);
  };
  CHECK(lockstep_test::figure(AUC{.num_thresholds = 3}, p, y) == 0.75);
  CHECK(weighted(roc, interpolation) == doctest::Approx(0.7855).epsilon(1e-3));
  CHECK(weighted(roc, majoring) == doctest::Approx(1));
  CHECK(weighted(roc, minoring) == doctest::Approx(0.571).epsilon(1e-3));
  CHECK(weighted(pr, majoring) == doctest::Approx(1));
  CHECK(weighted(pr, minoring) == doctest::Approx(0.3003).epsilon(0.05));
  CHECK(weighted(pr, interpolation) == doctest::Approx(2.416 / 7 + 4.0 / 7).epsilon(1e-3));
}

TEST_CASE("AUC: options") {
  CHECK(AUC{}.description() == "auc");
  CHECK(AUC{.curve = ls::AUCCurve::pr, .thresholds = {0.25, 0.5}}.description() ==
        "auc(num_thresholds=4, curve=pr, thresholds=0.25 0.5)");
  CHECK_THROWS_AS(AUC{.num_thresholds = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_WITH_AS((AUC{.thresholds = {0.5, 0.25}}.validate()),
                       "auc: thresholds must ascend between 0 and 1, got 0.25",
                       ls::ConfigurationError);
  CHECK_THROWS_WITH_AS((void)(AUC{.label_weights = {1}}.state_size(2)),
                       "auc: there are 1 label_weights for 2 outputs; expected as many",
                       ls::ConfigurationError);
}
