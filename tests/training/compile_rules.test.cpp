#include "lockstep/training/trainer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/losses.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/auc.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/loops.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::checked;

TEST_CASE("compile: rounds go neither with sharded updates nor with accumulated gradients") {
  const ls::detail::UpdateRules alone{};
  ls::detail::UpdateRules accumulates{};
  accumulates.accumulation_steps = 2;
  const ls::Synchronization rounds = ls::LocalSGD{.steps = 4}, each_step{};
  CHECK(&checked(rounds, alone, false) == &rounds);
  CHECK(&checked(each_step, accumulates, true) == &each_step);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)checked(rounds, alone, true); }),
                 "with sharded_updates"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { (void)checked(rounds, accumulates, false); }),
      "gradient_accumulation_steps=2"));
}

TEST_CASE("compile: probabilities that a model does not give are a warning") {
  using Logits = ls::Sequential<ls::Input<4>, ls::Dense<3>, ls::Flatten>;
  const auto takers = []<class Net, class Loss, class... Metrics>(Net, Loss loss, Metrics... m) {
    return ls::detail::Compiled<Net, float, Loss, ls::SGD, Metrics...>(loss, {}, std::tuple(m...))
        .takers_of_logits();
  };
  CHECK(takers(Logits(), ls::BinaryCrossentropy{}) == "the loss binary_crossentropy");
  CHECK(takers(Logits(), ls::BinaryCrossentropy{.from_logits = true}) == "");
  CHECK(takers(Logits(), ls::KLDivergence{}) == "the loss kl_divergence");
  CHECK(takers(Logits(), ls::Losses{ls::output_loss<0, 1>(ls::MeanSquaredError{}),
                                    ls::output_loss<1, 3>(ls::BinaryCrossentropy{})}) ==
        "the loss losses");
  CHECK(takers(Logits(), ls::MeanSquaredError{}) == "");
  CHECK(takers(Logits(), ls::MeanSquaredError{}, ls::AUC{},
               ls::metrics::BinaryCrossentropy{.loss = {.from_logits = true}},
               ls::metrics::BinaryCrossentropy{}) ==
        "the metric auc and the metric binary_crossentropy");
  CHECK(takers(ls::Sequential<ls::Input<4>, ls::Dense<3>, ls::Softmax>(), ls::KLDivergence{}) ==
        "");
  CHECK(takers(ls::Sequential<ls::Input<4>, ls::Dense<3, ls::Sigmoid>>(),
               ls::BinaryCrossentropy{}) == "");

  const ls::detail::Compiled<Logits, float, ls::BinaryCrossentropy, ls::SGD> program({}, {}, {});
  ls::OneDeviceStrategy alone;
  const CapturedStderr output;
  const auto trainer = ls::detail::make_trainer<float>(program, ls::any_strategy(alone), 1, {},
                                                       ls::detail::no_remote_variables);
  CHECK(contains(output.text(),
                 "warning: compile: the model's last layer has no activation, and the loss "
                 "binary_crossentropy would take what it gives for probabilities: set "
                 ".from_logits = true, or end the model with a softmax or a sigmoid"));
}
