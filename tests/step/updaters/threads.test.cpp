#include "lockstep/step/updaters/threads.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "step/step_testing.hpp"
#include "step/updaters/expected_updates.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::StatusBlock;

namespace {

/// Calls f(rank) as each of the threads of a process.
template <class F>
void run_ranks(const ls::detail::Program<float>& program, ls::detail::Variables<float>& variables,
               int threads, F f) {
  ls::InProcessGroup group(threads, lockstep_test::patient_options());
  lockstep_test::rethrow_first(lockstep_test::run_threads(threads, [&](int rank) {
    take_happened();
    const Rank own(program, variables, group.member(rank), rank, threads);
    f(own);
  }));
}

/// Parameters after some steps, of threads that share them; more than are updated after backward.
std::vector<float> train(int threads, const ls::Adam& optimizer, bool is_late) {
  using Net = ls::Sequential<ls::Input<4>, ls::Dense<1024, ls::ReLU>, ls::Dense<1040, ls::ReLU>,
                             ls::Dense<3>>;
  const ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::Adam> program(
      {.from_logits = true}, optimizer, {});
  ls::detail::Variables<float> variables(program);
  initialize(program, variables);
  run_ranks(program, variables, threads, [&](const Rank<float>& rank) {
    std::unique_ptr<ls::detail::Updater<float>> updater =
        std::make_unique<ls::detail::ThreadsUpdater<float>>(rank.parts);
    if (is_late) updater = std::make_unique<LateUpdater<float>>(rank.parts, std::move(updater));
    auto data = tiny_batches(40, 5 + static_cast<std::size_t>(rank.parts.replica.local_rank()));
    data.begin({});
    for (std::int64_t step = 0; step < 5; ++step)
      ls::detail::train_step(rank.parts, *updater, data, {.iteration = step});
  });
  const auto values = variables.parameters().values();
  return {values.begin(), values.end()};
}

bool all_are(const ls::detail::Variables<float>& variables, float wanted) {
  return std::ranges::all_of(variables.parameters().values(),
                             [&](float value) { return value == wanted; });
}

/// Returns when `threads` have come; a minute is the limit.
void meet(std::atomic<int>& come, int threads) {
  ++come;
  for (int i = 0; i < 60'000 && come < threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (come < threads) throw std::runtime_error("a thread did not come within a minute");
}

}  // namespace

TEST_CASE(
    "ThreadsUpdater: with large gradients threads update during backward what all of them have "
    "ready") {
  constexpr std::size_t size = 1'500'000;
  constexpr int threads = 4;
  MadeUpProgram program(size);
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  std::atomic<int> come = 0;
  program.ends = {size - 16, size};
  program.after_end = [&](std::size_t end) {
    if (end < size) meet(come, threads);
  };
  run_ranks(program, variables, threads, [&](const Rank<float>& rank) {
    const auto updater = rank.updater();
    auto data = tiny_batches(4, 4);
    data.begin({});
    ls::detail::train_step(rank.parts, *updater, data, {});
    const std::string text = take_happened();
    const std::size_t updated = text.find("update "), ended = text.find(')');
    if (updater->name() !=
        "each replica updates a share (reduce-scatter between threads, during backward)")
      throw std::logic_error("another route");
    if (text.find("backward(") != 0 || updated > ended)
      throw std::logic_error("no update during backward: " + text);
    if (rank.workspace.status()[StatusBlock::samples] != 16) throw std::logic_error("samples");
  });
  CHECK(all_are(variables, -0.5F * 4 / 16));
}

TEST_CASE("ThreadsUpdater: with small gradients threads update after backward") {
  MadeUpProgram program(1'000'000);
  ls::detail::Variables<float> variables(program);
  program.parameters = variables.parameters().values();
  program.ends = {500'000, 1'000'000};
  run_ranks(program, variables, 2, [&](const Rank<float>& rank) {
    const auto updater = rank.updater();
    auto data = tiny_batches(4, 4);
    data.begin({});
    ls::detail::train_step(rank.parts, *updater, data, {});
    const std::string text = take_happened();
    if (updater->name() != "each replica updates a share (reduce-scatter between threads)")
      throw std::logic_error("another route");
    if (text.find("backward( ) update ") != 0)
      throw std::logic_error("not after backward: " + text);
  });
  CHECK(all_are(variables, -0.5F * 2 / 8));
}

TEST_CASE("ThreadsUpdater: threads have the same bits early and late") {
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    const ls::Adam optimizer{.learning_rate = 0.01};
    CHECK(train(threads, optimizer, false) == train(threads, optimizer, true));
  }
}

TEST_CASE("ThreadsUpdater: threads that share parameters have the bits of ranks that do not") {
  const ls::SGD optimizer{.learning_rate = 0.3, .weight_decay = 0.01};
  const Updated<LargeNet> program({.from_logits = true}, optimizer, {});
  for (const int ranks : {2, 3}) {
    const auto expected = expected_steps(program, ranks, 3);
    ls::detail::Variables<float> variables(program);
    initialize(program, variables);
    run_ranks(program, variables, ranks, [&](const Rank<float>& rank) {
      const auto updater = rank.updater();
      for (int step = 1; step <= 3; ++step)
        make_update(rank.parts, *updater, step, samples_of(rank.parts.replica.local_rank()));
    });
    CHECK(copy(variables.parameters().values()) == expected.back());
  }
}

TEST_CASE("ThreadsUpdater: the untrained state becomes the mean, weighted with samples") {
  const MovingProgram program({.from_logits = true}, {.learning_rate = 0.5}, {});
  ls::detail::Variables<float> variables(program);
  constexpr std::array<double, 4> samples{3, 1, 0, 4};
  std::array<std::vector<float>, 4> states;
  std::array<std::vector<double>, 4> sums;
  run_ranks(program, variables, 4, [&](const Rank<float>& rank) {
    const int number = rank.parts.replica.local_rank();
    const auto r = static_cast<std::size_t>(number);
    const auto updater = rank.updater();
    const auto state = rank.parts.workspace.state().slices()[0];
    state[0] = number == 2 ? std::numeric_limits<float>::infinity() : static_cast<float>(number);
    state[1] = 0.1F;
    rank.parts.workspace.gradients().values()[0] = 2;
    StatusBlock& status = rank.parts.workspace.status();
    status[StatusBlock::samples] = samples[r];
    status[StatusBlock::rows] = samples[r];
    status[StatusBlock::loss_sum] = 10;
    updater->begin({});
    updater->finish();
    states[r] = {state.begin(), state.end()};
    sums[r] = {status[StatusBlock::samples], status[StatusBlock::loss_sum]};
  });
  CHECK(variables.parameters().values()[0] == -0.5F * 8 / 8);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(states[rank] == std::vector<float>{(0 * 3 + 1 * 1 + 3 * 4) / 8.0F, 0.1F});
    CHECK(sums[rank] == std::vector<double>{8, 40});
  }
}
