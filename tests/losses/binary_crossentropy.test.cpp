#include "lockstep/losses/binary_crossentropy.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "golden/binary.hpp"
#include "lockstep/core/error.hpp"
#include "losses/loss_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::Tensor;
using ls::BinaryCrossentropy;

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
