// A loss that is infinite or NaN.
#include "lockstep/step/non_finite.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// What fit prints; it goes on afterwards.
std::string said(TinyTrainer& trainer, const TinyData& data, int epochs = 1) {
  const CapturedStderr output;
  trainer.fit(data, {.batch_size = 4, .epochs = epochs, .shuffle = false});
  return output.text();
}

/// The weights of a model, of which one that belongs to the last layer is `value`.
void spoil(TinyTrainer& trainer, std::size_t variable, float value) {
  auto weights = trainer.get_weights();
  weights[variable].values[0] = value;
  trainer.set_weights(weights);
}

}  // namespace

TEST_CASE("non-finite loss: said once, with the epoch, the step, the rank and what came first") {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    CAPTURE(replicas);
    TinyTrainer trainer({.replicas = replicas});
    TinyData data(20);
    data.x(9, 2) = not_a_number;  // in the third batch, the second of four samples
    const std::string text = said(trainer, data, 3);
    const std::string name = replicas == 1 ? "worker 0" : "worker 0, replica 1";
    CHECK(contains(text,
                   "warning: fit: the loss is not finite in step 3 of epoch 1, on 1 of " +
                       std::to_string(replicas) + " replicas: " + name +
                       " (first in the input, sample 9 of the data); use a lower learning rate, or "
                       "look at the "
                       "data; without a TerminateOnNaN or .stop_on_non_finite training goes on"));
    CHECK(contains(text, "TerminateOnNaN"));
    CHECK(count(text, "not finite") == 1);
    CHECK(trainer.iterations() == 15);
    CHECK(count(said(trainer, data), "not finite") == 1);  // another fit
  }
}

TEST_CASE("non-finite loss: a parameter, or the output of the first layer that has it") {
  const TinyData data(8);
  TinyTrainer parameter, overflow, fine;
  spoil(parameter, 2, not_a_number);
  CHECK(contains(said(parameter, data), "first in the parameter user_dense_1/kernel"));
  spoil(overflow, 0, 3e38F);  // finite, as are all inputs
  TinyData large(8);
  large.x.setConstant(10);
  CHECK(contains(said(overflow, large), "first in the output of user_dense)"));
  CHECK(said(fine, data).empty());
}

TEST_CASE("non-finite loss: stop_on_non_finite says the same in its exception") {
  TinyTrainer trainer({.replicas = 2});
  TinyData data(8);
  data.x(4, 0) = not_a_number;
  const auto fits = [&] {
    trainer.fit(data, {.batch_size = 4, .shuffle = false, .stop_on_non_finite = true});
  };
  CHECK(contains(
      message_of<ls::Error>(fits),
      "in step 2 of epoch 1, on 1 of 2 replicas: worker 0, replica 0 (first in the input, sample 4 "
      "of the data); the "
      "parameters are those before it"));
}

TEST_CASE("non_finite_row: the first row, without padding") {
  std::vector<float> values(16 * 2, 0);
  const ls::TensorView<float> view(values.data(), 3, 2, 16);
  CHECK_FALSE(ls::detail::non_finite_row(view).has_value());
  view(0, 0) = std::numeric_limits<float>::max();
  values[3] = not_a_number;  // padding
  CHECK_FALSE(ls::detail::non_finite_row(view).has_value());
  view(2, 0) = not_a_number;
  view(1, 1) = std::numeric_limits<float>::infinity();
  CHECK(ls::detail::non_finite_row(view) == std::optional<std::size_t>(1));
}

TEST_CASE("share_non_finite: every rank hears what each has found") {
  std::vector<std::string> heard(3);
  run_workers(3, [&](WorkerStrategy& strategy) {
    const int rank = strategy.worker_index();
    ls::any_strategy(strategy)->run([&](ls::AnyReplica& replica) {
      heard[static_cast<std::size_t>(rank)] =
          ls::detail::share_non_finite(replica, rank == 0   ? std::string()
                                                : rank == 1 ? "the loss itself"
                                                            : std::string(500, 'x'));
    });
  });
  CHECK(heard[0] ==
        "worker 1 (first in the loss itself), worker 2 (first in " + std::string(119, 'x') + ")");
  CHECK(heard[1] == heard[0]);
  CHECK(heard[2] == heard[0]);
}

TEST_CASE("TerminateOnNaN: fit ends after the batch, on several replicas too") {
  for (const int replicas : {1, 2}) {
    const CapturedStderr output;
    TinyTrainer trainer({.replicas = replicas});
    TinyData data(20);
    data.x(9, 2) = not_a_number;
    Recorder recorder;
    recorder.at_batch_end = [](ls::Training& training, std::int64_t batch, ls::Logs& logs) {
      ls::TerminateOnNaN{}.on_train_batch_end(training, batch, logs);
    };
    trainer.fit(data, {.batch_size = 4, .epochs = 3, .shuffle = false}, &recorder);
    CHECK(recorder.count("batch_end") == 3);
    CHECK(recorder.count("epoch_end") == 1);
  }
}
