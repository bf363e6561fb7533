// fit, evaluate and predict have tests of their own.
#include "lockstep/training/trainer.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "support/model_testing.hpp"
#include "support/moving_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("Trainer: is in fit until fit returns or throws") {
  MovingTrainer held(1);
  ls::detail::Trainer<float>& trainer = held.trainer;
  const ls::AnyDataset data(RowDataset(TinyData(20), 5));
  Recorder recorder;
  ls::CallbackList<Recorder> callbacks(recorder);
  int times = 0;
  recorder.at_train_begin = [&](ls::Training&) { times += trainer.is_in_fit() ? 1 : 0; };
  CHECK_FALSE(trainer.is_in_fit());
  trainer.fit(data, {.epochs = 1, .verbose = 0}, callbacks);
  CHECK_FALSE(trainer.is_in_fit());
  recorder.at_train_begin = [&](ls::Training&) {
    times += trainer.is_in_fit() ? 1 : 0;
    throw std::runtime_error("no");
  };
  CHECK_THROWS(trainer.fit(data, {.epochs = 1, .verbose = 0}, callbacks));
  CHECK_FALSE(trainer.is_in_fit());
  CHECK(times == 2);
}
