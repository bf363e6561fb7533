#include "lockstep/metrics/metric_rows.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/confusion_matrix.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metric_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::keras;
using lockstep_test::check_metric;
using lockstep_test::figure;
using lockstep_test::state_of;
using lockstep_test::Tensor;

TEST_CASE("require_same_width: the widths are in the message") {
  lockstep::detail::require_same_width("M", 3, 3);
  CHECK_THROWS_WITH_AS(
      lockstep::detail::require_same_width("M", 3, 1),
      "M: the model has 3 outputs and the data 1 target values per sample; expected as many",
      lockstep::DataError);
}

TEST_CASE("metrics of classes: Keras's figures") {
  check_metric(ls::CategoricalAccuracy{}, golden::metric_logits, golden::metric_one_hot,
               golden::categorical_accuracy);
  check_metric(ls::SparseCategoricalAccuracy{}, golden::metric_logits, golden::metric_labels,
               golden::categorical_accuracy);
  check_metric(ls::TopKCategoricalAccuracy{.k = 2}, golden::metric_logits, golden::metric_one_hot,
               golden::top_2);
  check_metric(ls::SparseTopKCategoricalAccuracy{.k = 2}, golden::metric_logits,
               golden::metric_labels, golden::sparse_top_2);
  check_metric(ls::MeanIoU{}, golden::metric_logits, golden::metric_labels, golden::mean_iou);
  check_metric(ls::MeanIoU{.ignore_class = 2}, golden::metric_logits, golden::metric_one_hot,
               golden::mean_iou_ignore);
}

TEST_CASE("top k: ties at the k-th place count, and what is not finite does not") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float> p(3, 4, std::vector<float>{4, 3, 3, 3, 4, 3, 2, 1, nan, 1, 2, 3});
  const Tensor<float> labels(3, 1, std::vector<float>{3, 2, 0});
  CHECK(state_of(ls::SparseTopKCategoricalAccuracy{.k = 2}, p, labels) ==
        std::vector<double>{1, 3});
  CHECK(state_of(ls::SparseTopKCategoricalAccuracy{}, p, labels) == std::vector<double>{2, 3});
  CHECK_THROWS_WITH_AS(ls::TopKCategoricalAccuracy{.k = 0}.validate(),
                       "top_k_categorical_accuracy: k must be at least 1, got 0",
                       ls::ConfigurationError);
  CHECK(ls::SparseTopKCategoricalAccuracy{.k = 3}.description() ==
        "sparse_top_k_categorical_accuracy(k=3)");
}

TEST_CASE("metrics of classes: widths and labels that are refused") {
  const Tensor<float> p(2, 3), labels(2, 1, std::vector<float>{0, 3});
  CHECK_THROWS_AS((void)figure(ls::CategoricalAccuracy{}, p, labels), ls::DataError);
  CHECK_THROWS_WITH_AS((void)figure(ls::SparseCategoricalAccuracy{}, p, p),
                       "SparseCategoricalAccuracy: the data have 3 target values per sample; "
                       "expected one class label",
                       ls::DataError);
  CHECK_THROWS_WITH_AS((void)figure(ls::SparseTopKCategoricalAccuracy{}, labels, labels),
                       "SparseTopKCategoricalAccuracy: the model has 1 output; expected one for "
                       "each of at least two classes",
                       ls::DataError);
  CHECK_THROWS_WITH_AS((void)figure(ls::ConfusionMatrix{}, p, labels),
                       "ConfusionMatrix: the target of row 1 of the batch is no class; expected a "
                       "whole number from 0 "
                       "to 2",
                       ls::DataError);
  CHECK_THROWS_AS((void)ls::MeanIoU{}.state_size(1), ls::ConfigurationError);
}

TEST_CASE("ConfusionMatrix: counts of classes and predicted classes") {
  const Tensor<float> p(4, 3, std::vector<float>{1, 0, 0, 0, 0, 1, 0, 2, 1, 0, 0, 1});
  const Tensor<float> labels(4, 1, std::vector<float>{0, 1, 1, -1});
  const std::vector<float> weights{1, 2, 3, 0};  // a masked row has any label
  const std::vector<double> state = state_of(ls::ConfusionMatrix{}, p, labels, weights);
  CHECK(state == std::vector<double>{1, 0, 0, 0, 3, 2, 0, 0, 0});
  CHECK(ls::ConfusionMatrix{}.result(state) == 4.0 / 6);
  ls::Logs logs;
  ls::ConfusionMatrix{}.report(state, [&](std::string_view suffix, double value) {
    logs.set("val_m" + std::string(suffix), value);
  });
  Eigen::Matrix3d expected;
  expected << 1, 0, 0, 0, 3, 2, 0, 0, 0;
  CHECK(ls::ConfusionMatrix::matrix(logs, "val_m") == expected);
  CHECK_THROWS_AS((void)ls::ConfusionMatrix::matrix(logs), ls::Error);
  const Tensor<float> yes(3, 1, std::vector<float>{0.2F, 0.6F, 0.9F}),
      answers(3, 1, std::vector<float>{0, 0, 1});
  CHECK(state_of(ls::ConfusionMatrix{}, yes, answers) == std::vector<double>{1, 1, 0, 1});
}

TEST_CASE("MeanIoU: classes of labels, and classes that do not occur") {
  const Tensor<float> p(4, 1, std::vector<float>{0, 1, 0, 1}),
      y(4, 1, std::vector<float>{0, 0, 1, 1});
  CHECK(figure(ls::MeanIoU{.num_classes = 2}, p, y) ==
        doctest::Approx(1.0 / 3));  // Keras's example
  CHECK(figure(ls::MeanIoU{.num_classes = 5}, p, y) == doctest::Approx(1.0 / 3));
  CHECK(figure(ls::MeanIoU{.num_classes = 2}, Tensor<float>(1, 1, std::vector<float>{7}),
               Tensor<float>(1, 1, std::vector<float>{0})) == 0);
}

using lockstep::detail::describe_metric;
using lockstep::detail::optional_text;

TEST_CASE("describe_metric: the options that are not the default, in their order") {
  CHECK(describe_metric("precision", {}) == "precision");
  CHECK(describe_metric("precision", {{"top_k", 3.0, 3.0}, {"on", true, true}}) == "precision");
  CHECK(describe_metric("precision", {{"top_k", 3.0, 0.0}, {"on", true, true}}) ==
        "precision(top_k=3)");
  CHECK(describe_metric("auc", {{"curve", std::string("PR"), std::string("ROC")},
                                {"on", false, true},
                                {"n", std::int64_t{5}, std::int64_t{200}}}) ==
        "auc(curve=PR, on=false, n=5)");
}

TEST_CASE("describe_metric: an option that need not be given") {
  CHECK(optional_text(std::optional<int>()) == "none");
  CHECK(optional_text(std::optional<int>(0)) == "0");
  CHECK(optional_text(std::optional<double>(0.25)) == "0.25");
}
