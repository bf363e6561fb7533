#include "lockstep/training/compile_rules.hpp"

#include <doctest/doctest.h>

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
