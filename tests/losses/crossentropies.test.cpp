#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "golden/binary.hpp"
#include "golden/keras_losses.hpp"
#include "golden/losses.hpp"
#include "losses/loss_testing.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::sum_of_losses;
using lockstep_test::Tensor;
using ls::BinaryCrossentropy;
using ls::CategoricalCrossentropy;
using ls::SparseCategoricalCrossentropy;

static_assert(BinaryCrossentropy::target_size<ls::Shape<4>> == 4);

namespace {

/// The losses of all rows, and their gradients from the definition.
void check(const BinaryCrossentropy& loss, std::span<const double> scores,
           std::span<const double> expected) {
  constexpr std::size_t rows = golden::binary_rows, outputs = golden::binary_outputs;
  const auto check_scalar = [&]<class T>(T, double tolerance) {
    const Tensor<T> p(rows, outputs, scores), t(rows, outputs, golden::binary_targets),
        gradient(rows, outputs);
    std::vector<double> losses(rows);
    loss.compute(p.cview(), t.cview(), std::span<double>(losses), gradient.view());
    CHECK(gradient.padding_is(0));
    for (std::size_t i = 0; i < rows; ++i) {
      CAPTURE(i);
      CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-6));  // Keras's are in float
      for (std::size_t f = 0; f < outputs; ++f) {
        const double y = golden::binary_targets[i * outputs + f], score = scores[i * outputs + f];
        const double s = y * (1 - loss.label_smoothing) + loss.label_smoothing / 2;
        const bool is_clipped = !loss.from_logits && (score < 1e-7 || score > 1 - 1e-7);
        const double slope = loss.from_logits ? 1 / (1 + std::exp(-score)) - s
                             : is_clipped     ? 0
                                              : (score - s) / (score * (1 - score));
        CHECK(std::abs(static_cast<double>(gradient(i, f)) - slope / outputs) <=
              tolerance * (1 + std::abs(slope)));
      }
    }
  };
  lockstep_test::for_each_instruction_set([&] {
    check_scalar(double{}, 1e-12);
    check_scalar(float{}, 3e-5);
  });
}

}  // namespace

TEST_CASE("BinaryCrossentropy: golden values") {
  check({.from_logits = true}, golden::binary_logits, golden::binary_from_logits);
  check({.from_logits = true, .label_smoothing = 0.2}, golden::binary_logits,
        golden::binary_from_logits_smoothed);
  check({}, golden::binary_probabilities, golden::binary_from_probabilities);
  check({.label_smoothing = 0.2}, golden::binary_probabilities,
        golden::binary_from_probabilities_smoothed);
}

TEST_CASE("BinaryCrossentropy: finite differences") {
  for (const double smoothing : {0.0, 0.3}) {
    lockstep_test::check_loss(BinaryCrossentropy{.from_logits = true, .label_smoothing = smoothing},
                              Tensor<double>::random(19, 3, 1, -4, 4),
                              Tensor<double>::random(19, 3, 2, 0, 1));
    lockstep_test::check_loss(BinaryCrossentropy{.label_smoothing = smoothing},
                              Tensor<double>::random(19, 3, 1, 0.05, 0.95),
                              Tensor<double>::random(19, 3, 2, 0, 1));
  }
}

TEST_CASE("BinaryCrossentropy: large logits stay finite") {
  const Tensor<float> logits(2, 1, std::vector<float>{1000, -1000}),
      targets(2, 1, std::vector<float>{0, 0});
  const Tensor<float> gradient(2, 1);
  std::vector<double> losses(2);
  BinaryCrossentropy{.from_logits = true}.compute(logits.cview(), targets.cview(),
                                                  std::span<double>(losses), gradient.view());
  CHECK(losses == std::vector<double>{1000, 0});
  CHECK(gradient(0, 0) == 1);
  CHECK(gradient(1, 0) == 0);
}

TEST_CASE("BinaryCrossentropy: options, and targets that are none") {
  CHECK(BinaryCrossentropy{.label_smoothing = 0.5}.description() ==
        "binary_crossentropy(from_logits=false, label_smoothing=0.5)");
  CHECK_THROWS_AS(BinaryCrossentropy{.label_smoothing = 1.5}.validate(), ls::ConfigurationError);
  const Tensor<float> logits(2, 1);
  std::vector<double> losses(2);
  for (const float bad : {2.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    const Tensor<float> targets(2, 1, std::vector<float>{0, bad});
    CHECK_THROWS_WITH_AS(
        BinaryCrossentropy{}.compute(logits.cview(), targets.cview(), std::span<double>(losses),
                                     ls::TensorView<float>()),
        doctest::Contains("binary_crossentropy: a target of row 1 of the batch is "),
        ls::BadTarget);
  }
}

static_assert(CategoricalCrossentropy::target_size<ls::Shape<10>> == 10);

TEST_CASE("CategoricalCrossentropy: golden values") {
  lockstep_test::check_golden(CategoricalCrossentropy{.from_logits = true}, golden::samples,
                              golden::logits, golden::targets, golden::categorical_logits_value,
                              golden::categorical_logits_gradient);
  lockstep_test::check_golden(CategoricalCrossentropy{.from_logits = true, .label_smoothing = 0.1},
                              golden::samples, golden::logits, golden::targets,
                              golden::categorical_smoothed_value,
                              golden::categorical_smoothed_gradient);
  lockstep_test::check_golden(CategoricalCrossentropy{.label_smoothing = 0.1}, golden::samples,
                              golden::probabilities, golden::targets,
                              golden::categorical_probabilities_value,
                              golden::categorical_probabilities_gradient);
}

TEST_CASE("CategoricalCrossentropy: finite differences, also for targets that do not sum to 1") {
  const Tensor<double> targets = Tensor<double>::random(18, 4, 1, 0, 2);
  lockstep_test::check_loss(CategoricalCrossentropy{.from_logits = true},
                            Tensor<double>::random(18, 4, 2, -4, 4), targets);
  lockstep_test::check_loss(CategoricalCrossentropy{.label_smoothing = 0.3},
                            Tensor<double>::random(18, 4, 3, 0.1, 0.9), targets);
}

TEST_CASE("CategoricalCrossentropy: options") {
  CHECK(CategoricalCrossentropy{.label_smoothing = 0.5}.description() ==
        "categorical_crossentropy(from_logits=false, label_smoothing=0.5)");
  CategoricalCrossentropy{.label_smoothing = 1}.validate();
  CHECK_THROWS_WITH_AS(
      CategoricalCrossentropy{.label_smoothing = -0.5}.validate(),
      "categorical_crossentropy: label_smoothing is -0.5; expected a number in [0, 1]",
      ls::ConfigurationError);
  CHECK_THROWS_AS(
      CategoricalCrossentropy{.label_smoothing = std::numeric_limits<double>::quiet_NaN()}
          .validate(),
      ls::ConfigurationError);
}

static_assert(SparseCategoricalCrossentropy::target_size<ls::Shape<10>> == 1);
static_assert(!SparseCategoricalCrossentropy{}.from_logits);

namespace {

Tensor<double> labels_of(std::size_t samples, std::size_t classes) {
  Tensor<double> labels(samples, 1);
  for (std::size_t i = 0; i < samples; ++i) labels(i, 0) = static_cast<double>(i * 7 % classes);
  return labels;
}

std::string error_for(float label) {
  const Tensor<float> logits(3, 10);
  const Tensor<float> labels(3, 1);
  const Tensor<float> gradient(3, 10);
  labels(0, 0) = 9;
  labels(1, 0) = label;
  labels(2, 0) = 0;
  std::string message;
  try {
    lockstep_test::sum_of_losses(SparseCategoricalCrossentropy{.from_logits = true}, logits.cview(),
                                 labels.cview(), gradient.view());
  } catch (const ls::DataError& error) {
    message = error.what();
    CHECK(gradient(0, 0) == Tensor<float>::padding);  // untouched
  }
  return message;
}

}  // namespace

TEST_CASE("SparseCategoricalCrossentropy: golden values") {
  lockstep_test::check_golden(SparseCategoricalCrossentropy{.from_logits = true}, golden::samples,
                              golden::logits, golden::labels, golden::sparse_logits_value,
                              golden::sparse_logits_gradient);
  lockstep_test::check_golden(
      SparseCategoricalCrossentropy{}, golden::samples, golden::probabilities, golden::labels,
      golden::sparse_probabilities_value, golden::sparse_probabilities_gradient);
}

TEST_CASE("SparseCategoricalCrossentropy: finite differences, for any number of samples") {
  for (const std::size_t samples : {1U, 15U, 16U, 17U, 40U}) {
    CAPTURE(samples);
    const Tensor<double> labels = labels_of(samples, 7);
    lockstep_test::check_loss(SparseCategoricalCrossentropy{.from_logits = true},
                              Tensor<double>::random(samples, 7, samples, -4, 4), labels);
    lockstep_test::check_loss(SparseCategoricalCrossentropy{},
                              Tensor<double>::random(samples, 7, samples, 0.1, 0.9), labels);
  }
}

TEST_CASE("SparseCategoricalCrossentropy: equal logits cost log(classes)") {
  const Tensor<float> logits(20, 10, std::vector<float>(200, 3.5f));
  const Tensor<float> labels(20, 1, std::vector<float>(20, 4.0f));
  const SparseCategoricalCrossentropy loss{.from_logits = true};
  CHECK(sum_of_losses(loss, logits.cview(), labels.cview()) ==
        doctest::Approx(20 * std::log(10.0)));
}

TEST_CASE("SparseCategoricalCrossentropy: the largest logits neither overflow nor lose the loss") {
  const Tensor<float> logits(2, 2, std::vector<float>{3e38f, 2e38f, -3e38f, 100.0f});
  const Tensor<float> labels(2, 1, std::vector<float>{0.0f, 1.0f});
  const Tensor<float> gradient(2, 2);
  const SparseCategoricalCrossentropy loss{.from_logits = true};
  CHECK(sum_of_losses(loss, logits.cview(), labels.cview(), gradient.view()) == 0.0);
  CHECK(gradient(0, 0) == 0.0f);
  CHECK(gradient(1, 0) == 0.0f);
}

TEST_CASE("SparseCategoricalCrossentropy: not-a-number in a prediction is not hidden") {
  for (const bool from_logits : {true, false}) {
    const Tensor<float> predictions = Tensor<float>::random(17, 3, 1, 0.1, 0.9);
    const Tensor<float> labels(17, 1, std::vector<float>(17, 2.0f));
    predictions(16, 1) = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(sum_of_losses(SparseCategoricalCrossentropy{.from_logits = from_logits},
                                   predictions.cview(), labels.cview())));
  }
}

TEST_CASE("SparseCategoricalCrossentropy: a label that is no class is an error that names it") {
  CHECK(error_for(9).empty());
  CHECK(error_for(-0.0f).empty());
  CHECK(error_for(10) ==
        "sparse_categorical_crossentropy: the label of row 1 of the batch is 10; expected a whole "
        "number from 0 to 9 "
        "(the model has 10 outputs; those of a Vocabulary begin at 1)");
  CHECK(error_for(-1).find("row 1 of the batch is -1;") != std::string::npos);
  CHECK(error_for(2.5f).find("row 1 of the batch is 2.5;") != std::string::npos);
  CHECK(error_for(1e30f).find("row 1 of the batch is 1") != std::string::npos);
  CHECK(error_for(std::numeric_limits<float>::quiet_NaN()).find("row 1 of the batch is nan;") !=
        std::string::npos);
  CHECK(error_for(std::numeric_limits<float>::infinity()).find("row 1 of the batch is inf;") !=
        std::string::npos);
}

TEST_CASE("SparseCategoricalCrossentropy: description") {
  CHECK(SparseCategoricalCrossentropy{.from_logits = true}.description() ==
        "sparse_categorical_crossentropy(from_logits=true)");
}

TEST_CASE(
    "SparseCategoricalCrossentropy: an ignored class, which may be none of the model's, gets no "
    "weight") {
  const Tensor<float> logits = Tensor<float>::random(18, 3, 1, -1, 1);
  const Tensor<float> labels(18, 1, std::vector<float>(18, 2.0f));
  labels(0, 0) = labels(17, 0) = -1;
  const SparseCategoricalCrossentropy loss{.from_logits = true, .ignore_class = -1};
  std::vector<float> weights(18, 1.0f);
  CHECK(loss.ignore(labels.cview(), std::span(weights)));
  std::vector<float> expected(18, 1.0f);
  expected.front() = expected.back() = 0;
  CHECK(weights == expected);
  CHECK(std::isfinite(sum_of_losses(loss, logits.cview(), labels.cview())));
  labels(3, 0) = -2;
  CHECK_THROWS_AS(sum_of_losses(loss, logits.cview(), labels.cview()), ls::DataError);
  CHECK_FALSE(SparseCategoricalCrossentropy{}.ignore(labels.cview(), std::span(weights)));
  CHECK(loss.description() == "sparse_categorical_crossentropy(from_logits=true, ignore_class=-1)");
}

TEST_CASE(
    "SparseCategoricalCrossentropy: label smoothing is that of CategoricalCrossentropy for one-hot "
    "targets") {
  namespace smoothed = lockstep_test::golden::keras;
  lockstep_test::check_golden(
      SparseCategoricalCrossentropy{.from_logits = true, .label_smoothing = 0.1}, smoothed::rows,
      smoothed::real, smoothed::labels, smoothed::smoothed_value, smoothed::smoothed_gradient);
  const Tensor<double> labels(18, 1);
  for (std::size_t row = 0; row < 18; ++row) labels(row, 0) = static_cast<double>(row % 4);
  lockstep_test::check_loss(SparseCategoricalCrossentropy{.label_smoothing = 0.3},
                            Tensor<double>::random(18, 4, 3, 0.1, 0.9), labels);
  CHECK(SparseCategoricalCrossentropy{.label_smoothing = 0.5}.description() ==
        "sparse_categorical_crossentropy(from_logits=false, label_smoothing=0.5)");
  CHECK_THROWS_AS(SparseCategoricalCrossentropy{.label_smoothing = -1}.validate(),
                  ls::ConfigurationError);
}

TEST_CASE("softmax of a block: the samples from `first` on, with the numbers of the logarithm") {
  using lockstep_test::Tensor;
  const Tensor<double> logits = Tensor<double>::random(20, 3, 1, -30, 30), softmax(20, 3);
  ls::detail::SoftmaxBlock<double> block, without;
  ls::detail::softmax_block<double>(logits.view(), softmax.view(), 16, block);
  for (std::size_t row = 0; row < 20; ++row) {
    if (row < 16) {
      CHECK(softmax.view()(row, 0) == Tensor<double>::padding);
      continue;
    }
    double total = 0;
    for (std::size_t c = 0; c < 3; ++c) total += std::exp(logits.view()(row, c));
    CHECK(std::log(block.sum[row - 16]) + block.largest[row - 16] ==
          doctest::Approx(std::log(total)));
    CHECK(softmax.view()(row, 2) == doctest::Approx(std::exp(logits.view()(row, 2)) / total));
  }
  ls::detail::softmax_block<double>(logits.view(), ls::TensorView<double>(), 0, without);
  CHECK(without.sum[0] >= 1);
}
