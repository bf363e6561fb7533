// Optimizers that update whole variables.
#include "lockstep/optimizers/whole_variables.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "golden/optimizers.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Adafactor;
using ls::Ftrl;
using ls::Lamb;
using ls::LARS;
using ls::Muon;

namespace {

const ls::Variable tensor("kernel", {2, 2, 3}, nullptr), matrix("kernel", {2, 2}, nullptr),
    column("kernel", {4, 1}, nullptr), row("kernel", {1, 4}, nullptr), vector("bias", {4}, nullptr);

/// Updates with the gradients of one step after the other; they are given twice as large, and
/// gradient_scale is one half.
template <class T, class O>
std::vector<double> updated(const O& optimizer, const ls::Variable& variable,
                            std::span<const double> start, std::span<const double> gradients,
                            double limit = std::numeric_limits<double>::infinity()) {
  lockstep_test::Arena<T, O> arena(optimizer, start);
  const std::size_t n = start.size();
  for (std::size_t step = 0; step < gradients.size() / n; ++step) {
    std::vector<T> g;
    for (std::size_t i = 0; i < n; ++i) g.push_back(static_cast<T>(2 * gradients[step * n + i]));
    arena.update({.iteration = static_cast<std::int64_t>(step) + 1,
                  .learning_rate = optimizer.learning_rate,
                  .gradient_scale = 0.5,
                  .variable = &variable,
                  .variable_name = "dense/kernel",
                  .gradient_limit = limit},
                 g);
  }
  return {arena.parameters(), arena.parameters() + n};
}

template <class O>
void check_tensor(const O& optimizer, std::span<const double> expected,
                  double limit = std::numeric_limits<double>::infinity(),
                  const ls::Variable& variable = tensor) {
  lockstep_test::for_each_instruction_set([&] {
    const auto doubles =
        updated<double>(optimizer, variable, golden::tensor_start, golden::tensor_gradients, limit);
    const auto floats =
        updated<float>(optimizer, variable, golden::tensor_start, golden::tensor_gradients, limit);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(doubles[i] ==
            doctest::Approx(expected[i]).epsilon(1e-7));  // (Keras has some factors in float32.)
      CHECK(floats[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  });
}

const double one_two_three_four[] = {1, 2, 3, 4}, upstream_gradients[] = {1, 6, 7, 2};

template <class O>
void check_upstream(const O& optimizer, const ls::Variable& variable,
                    const std::vector<double>& expected) {
  const auto result = updated<float>(optimizer, variable, one_two_three_four, upstream_gradients);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(result[i] == doctest::Approx(expected[i]).epsilon(2e-4));
}

}  // namespace

TEST_CASE("Lamb: Keras's figures") {
  check_upstream(Lamb{.learning_rate = 0.5}, vector, {-0.3693, 0.6306, 1.6306, 2.6306});
  check_tensor(Lamb{.learning_rate = 0.1, .beta_1 = 0.8, .beta_2 = 0.9, .weight_decay = 0.1},
               golden::tensor_lamb);
}

TEST_CASE("Lamb: weights or gradients of zeros") {
  const double zeros[4] = {}, ones[] = {1, 1, 1, 1};
  CHECK(updated<double>(Lamb{.learning_rate = 0.5}, vector, zeros, ones)[0] ==
        doctest::Approx(-0.5).epsilon(1e-5));
  CHECK(updated<double>(Lamb{.learning_rate = 0.5}, vector, ones, zeros) ==
        std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("LARS: the algorithm of the paper, and variables that are not adapted") {
  const LARS lars{.learning_rate = 2, .trust_coefficient = 0.05, .weight_decay = 0.1};
  check_tensor(lars, golden::tensor_lars, 1.2);
  const double ones[] = {1, 1, 1, 1}, zeros[4] = {};
  LARS excluded{.learning_rate = 0.5};
  CHECK(updated<double>(excluded, vector, zeros, ones)[0] == -0.5);  // a norm of 0
  CHECK(updated<double>(excluded, vector, ones, ones)[0] == doctest::Approx(1 - 0.5 * 0.001));
  excluded.exclude_from_layer_adaptation = ls::fewer_dimensions_than(2);
  CHECK(updated<double>(excluded, vector, ones, ones)[0] == 0.5);
  CHECK(updated<double>(excluded, matrix, ones, ones)[0] == doctest::Approx(1 - 0.5 * 0.001));
  excluded.exclude_from_layer_adaptation = {"dense"};
  CHECK(updated<double>(excluded, matrix, ones, ones)[0] == 0.5);
}

TEST_CASE("Adafactor: Keras's figures") {
  check_upstream(Adafactor{.learning_rate = 0.5}, vector, {-0.3693, 0.6307, 1.6307, 2.6307});
  check_upstream(Adafactor{.learning_rate = 0.5}, matrix, {0.7007, -0.0081, 1.2492, 3.4407});
  check_tensor(Adafactor{.learning_rate = 0.5, .clip_threshold = 0.8}, golden::tensor_adafactor);
}

TEST_CASE("Adafactor: a dimension of 1 is not factored, and need not be") {
  for (const Adafactor& optimizer :
       {Adafactor{.learning_rate = 0.5}, Adafactor{.learning_rate = 0.5, .relative_step = false}}) {
    std::vector<double> gradients;
    for (int i = 0; i < 12; ++i) gradients.push_back(std::sin(i + 1));
    const auto of = [&](const ls::Variable& variable) {
      return updated<double>(optimizer, variable, one_two_three_four, gradients);
    };
    CHECK(of(column) == of(vector));
    CHECK(of(row) == of(vector));
    CHECK(of(matrix) != of(vector));
  }
  const auto limited = updated<double>(Adafactor{.learning_rate = 0.5}, vector, one_two_three_four,
                                       upstream_gradients, 1);
  CHECK(limited[0] == doctest::Approx(limited[1] - 1));  // all gradients are 1
}

TEST_CASE("Muon: Keras's figures of wide and tall matrices, and Adam for what is none") {
  const double none = std::numeric_limits<double>::infinity();
  check_tensor(Muon{.learning_rate = 0.1, .weight_decay = 0.1}, golden::wide_muon, none,
               {"kernel", {3, 4}, nullptr});
  const Muon tall{.learning_rate = 0.1, .ns_steps = 3, .nesterov = false, .rms_rate = 0};
  check_tensor(tall, golden::tall_muon, none, {"kernel", {4, 3}, nullptr});
  const Muon muon{.learning_rate = 0.1, .adam_weight_decay = 0.1, .adam_lr_ratio = 0.5};
  check_tensor(muon, golden::tensor_muon);
  Muon excluded = muon;
  excluded.exclude_layers = {"dense"};
  check_tensor(excluded, golden::tensor_muon, none, {"kernel", {3, 4}, nullptr});
  CHECK_THROWS_AS(Muon{.ns_steps = -1}.validate(), ls::ConfigurationError);
  Muon{}.validate();
}

TEST_CASE(
    "Muon: the step of a large matrix is orthogonal, nearly, and the same for its transpose") {
  const std::size_t rows = 70, columns = 150;
  const std::vector<double> zeros(rows * columns),
      g = lockstep_test::random_values(rows * columns, 5);
  std::vector<double> transposed(g.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) transposed[j * rows + i] = g[i * columns + j];
  const Muon muon{.learning_rate = 1, .ns_steps = 8, .rms_rate = 0};
  const auto w = updated<double>(muon, {"kernel", {rows, columns}, nullptr}, zeros, g);
  const auto other = updated<double>(muon, {"kernel", {columns, rows}, nullptr}, zeros, transposed);
  for (std::size_t i = 0; i < rows; ++i) {
    double square = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      square += w[i * columns + j] * w[i * columns + j];
      REQUIRE(std::abs(w[i * columns + j] - other[j * rows + i]) < 1e-9);
    }
    CHECK(square > 0.4);
    CHECK(square < 1.6);
  }
}

TEST_CASE("Ftrl: the partition changes no bit, and the rate 0 no weight") {
  lockstep_test::check_partition_independence(Ftrl{.l1_regularization_strength = 0.1, .beta = 0.1});
  CHECK(updated<double>(Ftrl{.learning_rate = 0}, vector, one_two_three_four, upstream_gradients) ==
        std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("Adafactor: a row and a column without gradients, whose product is 0 in float") {
  const ls::Variable kernel("kernel", {3, 3}, nullptr);
  const std::vector<double> start(9, 1.0), gradients = {0, 0, 0, 0, 1, 2, 0, 3, 4};
  const auto w = updated<float>(Adafactor{}, kernel, start, gradients);
  const auto exact = updated<double>(Adafactor{}, kernel, start, gradients);
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(w[i] == doctest::Approx(exact[i]));
  CHECK(w[0] == 1);
}

TEST_CASE("Lamb, LARS, Adafactor, Ftrl: options") {
  CHECK(Lamb{}.description() ==
        "Lamb(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, weight_decay=0)");
  CHECK(
      LARS{.exclude_from_layer_adaptation = {"bias"},
           .use_ema = true,
           .gradient_accumulation_steps = 2}
          .description() ==
      "LARS(learning_rate=0.01, momentum=0.9, trust_coefficient=0.001, epsilon=0, weight_decay=0, "
      "exclude_from_layer_adaptation=bias, momentum_form=keras, ema_momentum=0.99, "
      "gradient_accumulation_steps=2)");
  CHECK(Adafactor{}.description() ==
        "Adafactor(learning_rate=0.001, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=0.001, "
        "clip_threshold=1, "
        "relative_step=true, weight_decay=0)");
  CHECK(Ftrl{}.slots() == 2);
  Lamb{}.validate();
  LARS{}.validate();
  Adafactor{}.validate();
  Ftrl{}.validate();
  CHECK_THROWS_AS(Lamb{.beta_1 = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(LARS{.momentum = 1}.validate(), ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(Adafactor{.clip_threshold = 0}.validate(),
                       "Adafactor: clip_threshold is 0; expected a number above 0",
                       ls::ConfigurationError);
  CHECK_THROWS_AS(Adafactor{.beta_2_decay = 0}.validate(), ls::ConfigurationError);
  CHECK_THROWS_AS(Ftrl{.initial_accumulator_value = 0}.validate(), ls::ConfigurationError);
}
