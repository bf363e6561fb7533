// What is done for every optimizer: golden trajectories of all of them.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "golden/optimizers.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/lion.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/variables.hpp"
#include "support/any_optimizer.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using lockstep_test::AnyOptimizer;

namespace {

/// Ten updates of a kernel of 1 x 3 and a bias of 3, by the parts of three threads. Weights, then
/// averages.
std::vector<double> ten_updates(const AnyOptimizer& optimizer) {
  using Net = ls::Sequential<ls::Input<1>, ls::Dense<3>>;
  const ls::detail::Compiled<Net, double, ls::SparseCategoricalCrossentropy, AnyOptimizer> program(
      {}, optimizer, {});
  ls::detail::Variables<double> variables(program);
  const ls::Arena<double> gradients(program.layout().variables);
  for (std::size_t i = 0; i < 6; ++i)
    variables.parameters().slices()[i / 3][i % 3] = golden::keras_start[i];
  for (std::size_t step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < 6; ++i)  // of two samples
      gradients.slices()[i / 3][i % 3] = 2 * golden::keras_gradients[7 * step + i];
    for (std::size_t part = 0; part < 3; ++part)
      variables.norms().compute_part(std::span<const double>(gradients.values()), part, 3);
    for (std::size_t part = 0; part < 3; ++part) {
      const auto [begin, size] = variables.part(part, 3);
      variables.update(variables.parameters().values().subspan(begin, size),
                       gradients.values().subspan(begin, size), begin, 2,
                       static_cast<std::int64_t>(step) + 1);
    }
    variables.complete_update(static_cast<std::int64_t>(step) + 1, true);
  }
  std::vector<double> result;
  for (const auto slice : variables.parameters().slices())
    result.insert(result.end(), slice.begin(), slice.end());
  for (const auto slice : variables.slots().back().slices())
    result.insert(result.end(), slice.begin(), slice.end());
  return result;
}

void check(AnyOptimizer optimizer, std::span<const double> clipped_by_value,
           std::span<const double> clipped_by_norm) {
  CAPTURE(optimizer.description());
  optimizer.exclude_from_weight_decay = {"bias"};
  optimizer.use_ema = true;
  optimizer.ema_momentum = 0.8;
  optimizer.ema_overwrite_frequency = 4;
  const auto check_values = [&](std::span<const double> expected, double tolerance) {
    const std::vector<double> got = ten_updates(optimizer);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == doctest::Approx(expected[i]).epsilon(tolerance));
  };
  optimizer.clipvalue = 0.5;
  check_values(clipped_by_value, 1e-7);  // (Keras has some factors in float32.)
  optimizer.clipvalue = 0;
  optimizer.global_clipnorm = 1.5;
  check_values(clipped_by_norm, 2e-6);  // (And the norm.)
}

}  // namespace

TEST_CASE(
    "every optimizer: ten steps with decay of some variables, clipping, and averages that "
    "overwrite weights") {
  check(ls::SGD{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
        golden::every_sgd_clipvalue, golden::every_sgd_global_clipnorm);
  check(ls::Adam{.learning_rate = 0.1, .amsgrad = true, .weight_decay = 0.1},
        golden::every_adam_clipvalue, golden::every_adam_global_clipnorm);
  check(ls::Nadam{.learning_rate = 0.1, .weight_decay = 0.1}, golden::every_nadam_clipvalue,
        golden::every_nadam_global_clipnorm);
  check(ls::Adamax{.learning_rate = 0.1, .weight_decay = 0.1}, golden::every_adamax_clipvalue,
        golden::every_adamax_global_clipnorm);
  check(ls::RMSprop{.learning_rate = 0.1, .momentum = 0.5, .centered = true, .weight_decay = 0.1},
        golden::every_rmsprop_clipvalue, golden::every_rmsprop_global_clipnorm);
  check(ls::Adagrad{.learning_rate = 0.1, .weight_decay = 0.1}, golden::every_adagrad_clipvalue,
        golden::every_adagrad_global_clipnorm);
  check(ls::Adadelta{.learning_rate = 1, .epsilon = 0.01, .weight_decay = 0.1},
        golden::every_adadelta_clipvalue, golden::every_adadelta_global_clipnorm);
  check(ls::Lion{.learning_rate = 0.1, .weight_decay = 0.1}, golden::every_lion_clipvalue,
        golden::every_lion_global_clipnorm);
  check(ls::Lamb{.learning_rate = 0.1, .weight_decay = 0.1}, golden::every_lamb_clipvalue,
        golden::every_lamb_global_clipnorm);
  check(ls::Adafactor{.learning_rate = 0.5, .weight_decay = 0.1}, golden::every_adafactor_clipvalue,
        golden::every_adafactor_global_clipnorm);
  check(ls::Ftrl{.learning_rate = 0.1,
                 .l1_regularization_strength = 0.02,
                 .l2_regularization_strength = 0.03,
                 .l2_shrinkage_regularization_strength = 0.01,
                 .beta = 0.05,
                 .weight_decay = 0.1},
        golden::every_ftrl_clipvalue, golden::every_ftrl_global_clipnorm);
  check(ls::Muon{.learning_rate = 0.1,
                 .adam_weight_decay = 0.2,
                 .weight_decay = 0.1,
                 .adam_lr_ratio = 0.5},
        golden::every_muon_clipvalue, golden::every_muon_global_clipnorm);
  check(ls::LARS{.learning_rate = 2, .trust_coefficient = 0.05, .weight_decay = 0.1},
        golden::every_lars_clipvalue, golden::every_lars_global_clipnorm);
}
