#include "lockstep/losses/ctc.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "golden/ctc.hpp"
#include "lockstep/losses/labels.hpp"
#include "losses/loss_testing.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::ctc;
using lockstep_test::sum_of_losses;
using lockstep_test::Tensor;
using ls::CTC;

static_assert(CTC::target_size<ls::Shape<6, 4>> == 6);

namespace {

void check_paths(const ls::CTCDecodeOptions& options, std::span<const double> labels,
                 std::span<const double> scores) {
  constexpr std::size_t outputs = std::size_t{golden::steps} * golden::classes;
  for (std::size_t i = 0; i < golden::samples; ++i) {
    const std::vector<float> row(golden::logits + i * outputs, golden::logits + (i + 1) * outputs);
    const std::vector<ls::CTCPath> paths = ls::ctc_decode(row, golden::classes, options);
    REQUIRE(paths.size() == options.top_paths);
    for (std::size_t p = 0; p < paths.size(); ++p) {
      CAPTURE(i);
      CAPTURE(p);
      std::vector<int> wanted;
      for (std::size_t t = 0; t < golden::steps; ++t)
        if (const double label = labels[(p * golden::samples + i) * golden::steps + t]; label >= 0)
          wanted.push_back(static_cast<int>(label));
      CHECK(paths[p].labels == wanted);
      CHECK(paths[p].score == doctest::Approx(scores[i * paths.size() + p]).epsilon(1e-5));
    }
  }
}

/// -log of the sum over all paths that say the labels, of which there are classes^steps.
double by_enumeration(const Tensor<double>& logits, const std::vector<int>& labels,
                      std::size_t steps, std::size_t classes) {
  double sum = 0;
  std::vector<std::size_t> path(steps, 0);
  for (bool is_last = false; !is_last;) {
    std::vector<int> said;
    double probability = 1;
    for (std::size_t t = 0; t < steps; ++t) {
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1]))
        said.push_back(static_cast<int>(path[t]));
      double all = 0;
      for (std::size_t c = 0; c < classes; ++c) all += std::exp(logits(0, t * classes + c));
      probability *= std::exp(logits(0, t * classes + path[t])) / all;
    }
    if (said == labels) sum += probability;
    std::size_t t = 0;
    while (t < steps && ++path[t] == classes) path[t++] = 0;
    is_last = t == steps;
  }
  return -std::log(sum);
}

}  // namespace

TEST_CASE("CTC: golden values of PyTorch and Keras") {
  double value = 0;
  for (const double loss : golden::losses) value += loss;
  lockstep_test::check_golden(CTC{}, golden::samples, golden::logits, golden::labels, value,
                              golden::gradient);
  const Tensor<double> logits(golden::samples, std::size_t{golden::steps} * golden::classes,
                              golden::logits),
      labels(golden::samples, golden::steps, golden::labels);
  std::vector<double> losses(golden::samples);
  CTC{}.compute(logits.cview(), labels.cview(), std::span<double>(losses),
                ls::TensorView<double>());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == doctest::Approx(golden::losses[i]).epsilon(1e-12));
    CHECK(losses[i] == doctest::Approx(golden::keras_losses[i]).epsilon(1e-5));  // in float
  }
}

TEST_CASE("CTC: the sum over all paths") {
  const Tensor<double> logits = Tensor<double>::random(1, 15, 3, -3, 3);
  for (const std::vector<int>& labels : {std::vector<int>{}, {2}, {1, 1}, {1, 2, 1}, {2, 2, 1}}) {
    const Tensor<double> targets(1, 5, std::vector<double>(5));
    for (std::size_t i = 0; i < labels.size(); ++i) targets(0, i) = labels[i];
    CHECK(sum_of_losses(CTC{}, logits.cview(), targets.cview()) ==
          doctest::Approx(by_enumeration(logits, labels, 5, 3)).epsilon(1e-12));
  }
}

TEST_CASE("CTC: finite differences") {
  const Tensor<double> targets(18, 5, std::vector<double>(90));
  for (std::size_t i = 0; i < 18; ++i)
    for (std::size_t t = 0; t < i % 4; ++t)
      targets(i, t) = 1 + static_cast<double>((i / (t + 1)) % 3);
  lockstep_test::check_loss(CTC{}, Tensor<double>::random(18, 20, 1, -3, 3), targets);
}

TEST_CASE("CTC: the gradient may be the array of predictions, NaN stays, targets that are none") {
  const Tensor<double> logits(golden::samples, std::size_t{golden::steps} * golden::classes,
                              golden::logits),
      labels(golden::samples, golden::steps, golden::labels);
  (void)sum_of_losses(CTC{}, logits.cview(), labels.cview(), logits.view());
  CHECK(logits(6, 23) == doctest::Approx(golden::gradient[std::size(golden::gradient) - 1]));
  const Tensor<float> one(1, 12, std::vector<float>(12)), target(1, 3, std::vector<float>{1, 0, 0});
  one(0, 5) = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(sum_of_losses(CTC{}, one.cview(), target.cview())));
  const auto refused = [&](std::vector<float> bad, const char* message) {
    const Tensor<float> targets(1, 3, bad);
    CHECK_THROWS_WITH_AS(sum_of_losses(CTC{}, one.cview(), targets.cview()),
                         doctest::Contains(message), ls::BadTarget);
  };
  refused({4, 0, 0}, "ctc: the label of row 0 of the batch is 4; expected a whole number from 0");
  refused({1.5F, 0, 0}, "is 1.5; expected");
  refused({1, 0, 2}, "ctc: a label of row 0 of the batch stands behind a zero");
  refused({1, 1, 2}, "ctc: the labels of row 0 of the batch need 4 steps");
}

TEST_CASE("ctc_decode: golden values of Keras") {
  check_paths({}, golden::greedy_labels, golden::greedy_scores);
  check_paths({.merge_repeated = false}, golden::unmerged_labels, golden::unmerged_scores);
  check_paths({.beam_width = 1000, .top_paths = 3}, golden::beam_labels, golden::beam_scores);
}

TEST_CASE("ctc_decode: a beam's score is the loss of its labels; options that make no sense") {
  const std::vector<float> row(golden::logits, golden::logits + 24);
  const ls::CTCPath best = ls::ctc_decode(row, 4, {.beam_width = 500})[0];
  const Tensor<double> logits(1, 24, row), targets(1, 6, std::vector<double>(6));
  for (std::size_t i = 0; i < best.labels.size(); ++i) targets(0, i) = best.labels[i];
  CHECK(sum_of_losses(CTC{}, logits.cview(), targets.cview()) ==
        doctest::Approx(-best.score).epsilon(1e-12));
  CHECK(ls::ctc_decode({}, 4)[0].labels.empty());
  // Of two steps and one label: nothing, and the label; twice it needs a blank between.
  CHECK(ls::ctc_decode(std::vector<float>(4), 2, {.beam_width = 10, .top_paths = 10}).size() == 2);
  CHECK_THROWS_WITH_AS((void)ls::ctc_decode(row, 4, {.top_paths = 2}),
                       doctest::Contains("top_paths is 2; expected 1 to 1"),
                       ls::ConfigurationError);
  CHECK_THROWS_WITH_AS((void)ls::ctc_decode(row, 5), doctest::Contains("got 24 logits"),
                       ls::DataError);
}
