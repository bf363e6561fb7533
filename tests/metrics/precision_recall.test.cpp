#include "lockstep/metrics/precision_recall.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "metrics/metric_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::keras;
using lockstep_test::check_metric;
using lockstep_test::figure;
using lockstep_test::state_of;
using lockstep_test::Tensor;

TEST_CASE("Precision and Recall: Keras's figures") {
  check_metric(ls::Precision{}, golden::metric_chances, golden::metric_answers, golden::precision);
  check_metric(ls::Precision{.top_k = 2}, golden::metric_chances, golden::metric_answers,
               golden::precision_top_2);
  check_metric(ls::Precision{.thresholds = 0.7, .top_k = 2}, golden::metric_chances,
               golden::metric_answers, golden::precision_above);
  check_metric(ls::Precision{.class_id = 1}, golden::metric_chances, golden::metric_answers,
               golden::precision_class_1);
  check_metric(ls::Recall{}, golden::metric_chances, golden::metric_answers, golden::recall);
  check_metric(ls::Recall{.top_k = 2}, golden::metric_chances, golden::metric_answers,
               golden::recall_top_2);
  check_metric(ls::Recall{.thresholds = 0.6, .class_id = 1}, golden::metric_chances,
               golden::metric_answers, golden::recall_class_1);
}

TEST_CASE(
    "Precision and Recall: class labels stand for one-hot targets, and of equal scores the first "
    "are the top") {
  const Tensor<float> p(3, 3,
                        std::vector<float>{0.9F, 0.9F, 0.1F, 0.2F, 0.8F, 0.9F, 0.1F, 0.1F, 0.1F});
  const Tensor<float> labels(3, 1, std::vector<float>{1, 2, 0});
  const Tensor<float> one_hot(3, 3, std::vector<float>{0, 1, 0, 0, 0, 1, 1, 0, 0});
  CHECK(state_of(ls::Precision{}, p, labels) == state_of(ls::Precision{}, p, one_hot));
  CHECK(figure(ls::Precision{}, p, labels) == 0.5);
  CHECK(figure(ls::Precision{.top_k = 1}, p, labels) == doctest::Approx(2.0 / 3));
}

TEST_CASE("Precision: options and widths that make no sense") {
  CHECK_THROWS_WITH_AS(ls::Precision{.top_k = 0}.validate(),
                       "precision: top_k must be at least 1, got 0", ls::ConfigurationError);
  CHECK_THROWS_AS(ls::Recall{.class_id = -1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(
      (void)figure(ls::Recall{.class_id = 3}, Tensor<float>(2, 3), Tensor<float>(2, 3)),
      "recall: class_id is 3, but the model has 3 outputs", ls::DataError);
  CHECK_THROWS_WITH_AS((void)figure(ls::Precision{}, Tensor<float>(2, 3), Tensor<float>(2, 2)),
                       "precision: the model has 3 outputs and the data 2 target values per "
                       "sample; expected as many, "
                       "or one class label",
                       ls::DataError);
  CHECK(ls::Precision{}.description() == "precision");
  CHECK(ls::Recall{.thresholds = 0.25, .top_k = 3, .name = "mine"}.description() ==
        "recall(thresholds=0.25, top_k=3)");
}

TEST_CASE("FBetaScore and F1Score: Keras's figures") {
  const std::vector<double> means = {
      (golden::f1[0] + golden::f1[1] + golden::f1[2] + golden::f1[3]) / 4,
      (golden::f1[4] + golden::f1[5] + golden::f1[6] + golden::f1[7]) / 4};
  check_metric(ls::F1Score{}, golden::metric_probabilities, golden::metric_one_hot, means);
  check_metric(ls::F1Score{}, golden::metric_probabilities, golden::metric_labels, means);
  check_metric(ls::F1Score{.average = ls::ClassAverage::micro}, golden::metric_probabilities,
               golden::metric_one_hot, golden::f1_micro);
  check_metric(ls::F1Score{.average = ls::ClassAverage::macro, .threshold = 0.6},
               golden::metric_chances, golden::metric_answers, golden::f1_macro);
  check_metric(ls::FBetaScore{.average = ls::ClassAverage::weighted, .beta = 2, .threshold = 0.5},
               golden::metric_chances, golden::metric_answers, golden::fbeta_weighted);
}

TEST_CASE("F1Score: without an average it reports each class") {
  constexpr std::size_t rows = golden::metric_rows, classes = golden::metric_classes;
  const Tensor<double> p(rows, classes, golden::metric_probabilities),
      y(rows, classes, golden::metric_one_hot);
  std::vector<std::pair<std::string, double>> figures;
  const auto set = [&](std::string_view suffix, double value) {
    figures.emplace_back(suffix, value);
  };
  ls::F1Score{}.report(state_of(ls::F1Score{}, p, y), set);
  REQUIRE(figures.size() == classes + 1);
  CHECK(figures[0].first == "");
  CHECK(figures[3].first == "_2");
  for (std::size_t c = 0; c < classes; ++c)
    CHECK(figures[c + 1].second == doctest::Approx(golden::f1[c]));
  figures.clear();
  ls::F1Score{.average = ls::ClassAverage::macro}.report(state_of(ls::F1Score{}, p, y), set);
  CHECK(figures.size() == 1);
}

TEST_CASE("FBetaScore: options") {
  CHECK(ls::F1Score{.average = ls::ClassAverage::macro}.description() == "f1_score(average=macro)");
  CHECK(ls::FBetaScore{.beta = 2}.description() == "fbeta_score(beta=2)");
  CHECK_THROWS_WITH_AS(ls::FBetaScore{.beta = 0}.validate(),
                       "fbeta_score: beta must be above 0, got 0", ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(ls::F1Score{.threshold = 1.5}.validate(),
                       "f1_score: threshold must be in (0, 1], got 1.5", ls::ConfigurationError);
  const Tensor<float> zeros(2, 3, std::vector<float>(6, 0.0F)),
      labels(2, 1, std::vector<float>{0, 1});
  CHECK(figure(ls::F1Score{}, zeros, labels) == 0);  // a row of zeros predicts nothing
}
