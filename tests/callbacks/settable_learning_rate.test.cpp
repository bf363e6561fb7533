#include "lockstep/callbacks/settable_learning_rate.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "callbacks/fake_training.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::FakeTraining;
using lockstep_test::message_of;

namespace {

/// Keeps the rates that were set, and may fail.
struct Observed : FakeTraining {
  std::vector<double> set = {};
  bool fails = false;
  void set_learning_rate(double learning_rate) override {
    if (fails) throw ls::DataError("of another kind");
    set.push_back(learning_rate);
    FakeTraining::set_learning_rate(learning_rate);
  }
};

}  // namespace

TEST_CASE("settable learning rate: it is asked by setting the rate that is in force") {
  Observed training;
  training.rate = 0.3;
  ls::detail::require_settable_learning_rate("MyCallback", training);
  CHECK(training.set == std::vector<double>{0.3});
  CHECK(training.rate == 0.3);
}

TEST_CASE("settable learning rate: a refusal names the callback, other errors are passed on") {
  Observed training;
  training.has_schedule = true;
  const auto ask = [&] { ls::detail::require_settable_learning_rate("MyCallback", training); };
  CHECK(message_of<ls::ConfigurationError>(ask) ==
        "MyCallback: set_learning_rate: the optimizer has a schedule");
  training.fails = true;
  CHECK(message_of<ls::DataError>(ask) == "of another kind");
}
