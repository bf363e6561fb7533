#include "lockstep/metrics/mean_losses.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/metric_rows.hpp"
#include "lockstep/metrics/r2_score.hpp"
#include "lockstep/metrics/wrappers.hpp"
#include "metrics/metric_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::keras;
using lockstep_test::check_metric;
using lockstep_test::figure;
using lockstep_test::Tensor;

TEST_CASE("metrics of numbers: Keras's figures") {
  check_metric(ls::metrics::MeanSquaredError{}, golden::metric_estimates, golden::metric_real,
               golden::mse);
  check_metric(ls::metrics::MeanAbsoluteError{}, golden::metric_estimates, golden::metric_real,
               golden::mae);
  check_metric(ls::metrics::CosineSimilarity{}, golden::metric_estimates, golden::metric_real,
               golden::cosine);
  check_metric(ls::RootMeanSquaredError{}, golden::metric_estimates, golden::metric_real,
               golden::rmse);
  check_metric(ls::R2Score{}, golden::metric_estimates, golden::metric_real, golden::r2);
  check_metric(ls::R2Score{.class_aggregation = ls::ClassAggregation::variance_weighted_average},
               golden::metric_estimates, golden::metric_real, golden::r2_variance);
  check_metric(ls::metrics::SparseCategoricalCrossentropy{.loss = {.from_logits = true}},
               golden::metric_logits, golden::metric_labels, golden::crossentropy);
  const std::vector<double> perplexities = {std::exp(golden::crossentropy[0]),
                                            std::exp(golden::crossentropy[1])};
  check_metric(ls::Perplexity{.from_logits = true}, golden::metric_logits, golden::metric_labels,
               perplexities);
}

TEST_CASE("R2Score: adjusted to the number of rows, and where nothing varies") {
  std::vector<double> real, estimates;
  for (std::size_t row = 0; row < golden::metric_rows; ++row) {
    real.push_back(golden::metric_real[row * golden::metric_classes]);
    estimates.push_back(golden::metric_estimates[row * golden::metric_classes]);
  }
  const ls::R2Score adjusted{.num_regressors = 3};
  CHECK(figure(adjusted, Tensor<double>(real.size(), 1, estimates),
               Tensor<double>(real.size(), 1, real)) ==
        doctest::Approx(golden::r2_adjusted[0]).epsilon(1e-6));
  const Tensor<double> same(3, 1, std::vector<double>{2, 2, 2}),
      other(3, 1, std::vector<double>{1, 2, 3});
  CHECK(figure(ls::R2Score{}, other, same) == 0);
  CHECK(figure(ls::R2Score{}, same, same) == 0);
  // Of constants whose squares are rounded, too.
  const std::vector<double> tenths(1000, static_cast<double>(0.1F)), fifths(1000, 0.2);
  CHECK(figure(ls::R2Score{}, Tensor<double>(1000, 1, fifths), Tensor<double>(1000, 1, tenths)) ==
        0);
  CHECK(adjusted.description() == "r2_score(num_regressors=3)");
  CHECK_THROWS_AS(ls::R2Score{.num_regressors = -1}.validate(), ls::ConfigurationError);
}

TEST_CASE("MeanLoss: options of the loss, rows that it ignores, widths that it does not take") {
  const ls::MeanLoss huber{ls::Huber{.delta = 2}};
  CHECK(huber.name == "huber_loss");
  CHECK(huber.description() == "huber_loss(delta=2)");
  const Tensor<float> p(2, 2, std::vector<float>{1, 3, 0, 0}),
      labels(2, 1, std::vector<float>{1, -1});
  const ls::Perplexity without_one{.from_logits = true, .mask_token_id = -1};
  CHECK(figure(without_one, p, labels) == doctest::Approx(1 + std::exp(-2.0)));
  CHECK(figure(without_one, p, labels, {2.0F, 1.0F}) == doctest::Approx(1 + std::exp(-2.0)));
  // The target of a row that does not count may be anything.
  CHECK(figure(ls::Perplexity{.from_logits = true}, p, labels, {2.0F, 0.0F}) ==
        doctest::Approx(1 + std::exp(-2.0)));
  CHECK_THROWS_AS((void)figure(ls::Perplexity{.from_logits = true}, p, labels), ls::DataError);
  CHECK_THROWS_AS((void)figure(ls::metrics::MeanSquaredError{}, p, labels), ls::DataError);
  CHECK_THROWS_AS((void)figure(ls::Perplexity{}, p, p), ls::DataError);
}

TEST_CASE("Weighted: what it hands on") {
  const ls::Weighted weighted{ls::Perplexity{.from_logits = true}};
  CHECK(weighted.name == "perplexity");
  CHECK(weighted.state_size(4) == 2);
  CHECK(weighted.description() == "weighted perplexity(from_logits=true)");
  CHECK(ls::Weighted{ls::Accuracy{}}.description() == "weighted accuracy");
  check_metric(
      weighted, golden::metric_logits, golden::metric_labels,
      std::vector<double>{std::exp(golden::crossentropy[0]), std::exp(golden::crossentropy[1])});
}

TEST_CASE("names of metrics: each key once, as in Keras") {
  std::vector<std::string> names;
  for (const char* const name : {"auc", "auc", "accuracy", "auc"})
    ls::detail::add_metric_name(names, name, false);
  for (const char* const name : {"accuracy", "accuracy", "recall"})
    ls::detail::add_metric_name(names, name, true);
  CHECK(names == std::vector<std::string>{"auc", "auc_1", "accuracy", "auc_2", "weighted_accuracy",
                                          "weighted_accuracy_1", "recall"});
}
