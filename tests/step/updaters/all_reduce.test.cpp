#include "lockstep/step/updaters/all_reduce.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "step/step_testing.hpp"
#include "step/updaters/expected_updates.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("AllReduceUpdater: one reduction after backward, and then the update") {
  MadeUpProgram program(1'000);
  program.ends = {100, 1'000};
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  const Rank rank(program, variables, LonelyCollective(2));
  LonelyCollective::gradients = rank.workspace.gradients().values().data();
  const auto updater = rank.updater();
  CHECK(updater->name() == "all-reduce");
  auto data = tiny_batches(5, 5);
  data.begin({});
  take_happened();
  ls::detail::train_step(rank.parts, *updater, data, {});
  CHECK(take_happened() == "backward( ) all-reduce 0-1008 update 0-1008 ");
  for (const float value : variables.parameters().values().first(1'000))
    REQUIRE(value == -0.5F / 5);
}

TEST_CASE("AllReduceUpdater: each replica of a process updates its part") {
  MadeUpProgram program(1'600);
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  for (const int local_rank : {0, 1, 2}) {
    const Rank rank(program, variables, LonelyCollective(6), local_rank, 3);
    LonelyCollective::gradients = rank.workspace.gradients().values().data();
    rank.parts.workspace.status()[ls::detail::StatusBlock::samples] = 1;
    rank.parts.workspace.status()[ls::detail::StatusBlock::rows] = 1;
    take_happened();
    ls::detail::AllReduceUpdater<float> updater(rank.parts);
    updater.begin({});
    updater.finish();
    const char* const parts[] = {"0-528 ", "528-1056 ", "1056-1600 "};
    CHECK(take_happened() == std::string("all-reduce 0-1600 update ") + parts[local_rank]);
  }
}

TEST_CASE("AllReduceUpdater: the bits do not depend on who updates") {
  for (const int ranks : {2, 3})
    for (const double momentum : {0.0, 0.5}) {
      const ls::SGD optimizer{.learning_rate = 0.3, .momentum = momentum, .weight_decay = 0.01};
      const Updated<SmallNet> small({.from_logits = true}, optimizer, {});
      const Updated<LargeNet> large({.from_logits = true}, optimizer, {});
      check_steps<lockstep_test::TcpFamily>(small, ranks, "all-reduce");
      check_steps<lockstep_test::TcpFamily>(large, ranks, "all-reduce");
    }
  const Updated<LargeNet> large({.from_logits = true}, {.learning_rate = 0.3}, {});
  check_steps<lockstep_test::TcpFamily>(large, 4, "all-reduce");
}

TEST_CASE(
    "AllReduceUpdater: an update that is clipped by norms has the same bits alone, on threads and "
    "on workers") {
  for (const ls::SGD& optimizer :
       {ls::SGD{.learning_rate = 0.3, .momentum = 0.5, .global_clipnorm = 0.7},
        ls::SGD{.learning_rate = 0.3, .clipnorm = 0.2}}) {
    const Updated<LargeNet> program({.from_logits = true}, optimizer, {});
    const auto parameters = [&](auto collective, int rank, int size,
                                ls::detail::Variables<float>& variables) {
      const Rank own(program, variables, std::move(collective), rank, size);
      const auto updater = own.updater();
      require(updater->name() == "all-reduce", "the route");
      for (int step = 1; step <= 3; ++step)
        make_update(own.parts, *updater, step, samples_of(rank));
    };
    {
      ls::detail::Variables<float> variables(program);
      initialize(program, variables);
      parameters(ls::Single{}, 0, 1, variables);
      CHECK(copy(variables.parameters().values()) == expected_steps(program, 1, 3).back());
    }
    for (const int threads : {2, 3}) {
      ls::detail::Variables<float> variables(program);
      initialize(program, variables);
      ls::InProcessGroup group(threads, lockstep_test::patient_options());
      lockstep_test::rethrow_first(lockstep_test::run_threads(
          threads, [&](int rank) { parameters(group.member(rank), rank, threads, variables); }));
      CHECK(copy(variables.parameters().values()) == expected_steps(program, threads, 3).back());
    }
    check_steps<lockstep_test::TcpFamily>(program, 2, "all-reduce");
  }
}
