#include "lockstep/step/updaters/accumulated.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "step/step_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE(
    "AccumulatedUpdater: one reduction and one update for each window, by the mean over its rows") {
  MadeUpProgram program(1'000);
  program.ends = {100, 1'000};
  program.rules.accumulation_steps = 3;
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  const Rank rank(program, variables, LonelyCollective(2));
  LonelyCollective::gradients = rank.workspace.gradients().values().data();
  const auto updater = rank.updater();
  CHECK(updater->name() == "all-reduce, once in 3 steps");
  auto data = tiny_batches(19, 5);  // batches of 5, 5, 5 and 4
  data.begin({});
  take_happened();
  std::int64_t accumulated = 0;
  const auto step = [&] {
    const bool updated = ls::detail::train_step(
        rank.parts, *updater, data, {.accumulated = accumulated, .continues = accumulated > 0});
    const double samples = rank.workspace.status()[ls::detail::StatusBlock::samples];
    CHECK(updated == (samples > 0 && accumulated == 2));
    if (updated) variables.complete_update(variables.iterations + 1, true);
    if (samples > 0) accumulated = (accumulated + 1) % 3;
    return take_happened();
  };
  CHECK(step() == "backward( ) ");
  CHECK(step() == "backward( ) ");
  for (const float value : variables.parameters().values()) REQUIRE(value == 0);
  CHECK(step() == "backward( ) all-reduce 0-1008 update 0-1008 ");
  // The gradients of all rows are 1 for each step: their sum over the rows of the window is 3.
  for (const float value : variables.parameters().values().first(1'000))
    REQUIRE(value == doctest::Approx(-0.5 * 3 / 15));

  CHECK(step() == "backward( ) ");
  // The data end: their sums go into the variables, and wait there for the other steps of the
  // window.
  CHECK(step() == "backward( ) ");
  CHECK(accumulated == 1);
  updater->carry(accumulated);
  CHECK(variables.accumulated_steps == 1);
  CHECK(variables.accumulated_rows == 4);
  for (const float value : variables.accumulated().values().first(1'000)) REQUIRE(value == 1);
  const auto another = rank.updater();
  accumulated = variables.accumulated_steps;
  for (int i = 0; i < 2; ++i, ++accumulated) {
    data.begin({});
    CHECK(ls::detail::train_step(
              rank.parts, *another, data,
              {.iteration = 1, .accumulated = accumulated, .continues = i > 0}) == (i == 1));
  }
  variables.complete_update(2, true);
  for (const float value : variables.parameters().values().first(1'000))
    REQUIRE(value == doctest::Approx(-0.5 * 3 / 15 - 0.5 * 3 / 14));
  CHECK(variables.accumulated_steps == 0);
  for (const float value : variables.accumulated().values()) REQUIRE(value == 0);
}

TEST_CASE(
    "AccumulatedUpdater: a step that counts no row, or no finite loss, has no part in its window") {
  MadeUpProgram program(16);
  program.rules.accumulation_steps = 2;
  ls::detail::Variables<float> variables(program);
  const Rank rank(program, variables, LonelyCollective(2));
  auto& status = rank.parts.workspace.status();
  const auto updater = rank.updater();
  const auto step = [&](double rows, double non_finite, bool is_last) {
    using Status = ls::detail::StatusBlock;
    status.clear();
    status[Status::samples] = 5;
    status[Status::rows] = rows;
    status[Status::non_finite] = non_finite;
    for (float& gradient : rank.parts.workspace.gradients().values())
      gradient = static_cast<float>(rows);
    updater->begin({.stop_on_non_finite = true, .is_first = !is_last, .is_last = is_last});
    return updater->finish();
  };
  CHECK_FALSE(step(0, 0, false));
  CHECK_FALSE(step(4, 1, false));
  CHECK_FALSE(step(0, 0, true));
  CHECK(variables.parameters().values()[0] == 0);
  CHECK_FALSE(step(4, 0, false));
  CHECK_FALSE(step(4, 1, true));
  CHECK(variables.parameters().values()[0] == 0);
  CHECK(step(0, 0, true));  // an update with the rows of the first step
  CHECK(variables.parameters().values()[0] == -0.5F);
}
