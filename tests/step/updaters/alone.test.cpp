#include "lockstep/step/updaters/alone.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "step/step_testing.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::StatusBlock;
using Progress = ls::detail::Updater<float>::Progress;

namespace {

/// All kinds of layers: with large kernels and small ones, and one (UserDense) that announces
/// nothing.
using Net =
    ls::Sequential<ls::Input<4>, ls::Dense<600, ls::ReLU>, ls::Dense<64, ls::ReLU>,
                   ls::Reshape<4, 4, 4>, ls::Conv2D<48, 3, ls::ReLU>, ls::BatchNormalization<>,
                   ls::Flatten, UserDense<200>, ls::Dense<200, ls::ReLU>, ls::Dense<3>>;

/// Parameters and slots after some steps.
template <class Optimizer>
std::vector<float> train(const Optimizer& optimizer, bool is_late) {
  const ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, Optimizer> program(
      {.from_logits = true}, optimizer, {});
  ls::detail::Variables<float> variables(program);
  initialize(program, variables);
  const Rank rank(program, variables, ls::Single{});
  auto updater = rank.updater();
  if (is_late) updater = std::make_unique<LateUpdater<float>>(rank.parts, std::move(updater));
  auto data = tiny_batches(40, 5);
  data.begin({});
  for (std::int64_t step = 0; step < 8; ++step)
    ls::detail::train_step(rank.parts, *updater, data, {.iteration = step});
  std::vector<float> values(variables.parameters().values().begin(),
                            variables.parameters().values().end());
  for (const auto& slot : variables.slots())
    values.insert(values.end(), slot.values().begin(), slot.values().end());
  return values;
}

template <class Optimizer>
void check_equal(const Optimizer& optimizer) {
  const std::vector<float> early = train(optimizer, false);
  CHECK(early == train(optimizer, true));
  CHECK(early != train(Optimizer{.learning_rate = 2 * optimizer.learning_rate}, false));
}

/// A MadeUpProgram and its rank.
struct Setup {
  MadeUpProgram program;
  ls::detail::Variables<float> variables{program};
  Rank<float> rank{program, variables, ls::Single{}};
  std::unique_ptr<ls::detail::Updater<float>> updater = rank.updater();

  explicit Setup(std::size_t size) : program(size) {
    program.parameters = variables.parameters().values();
  }
};

}  // namespace

TEST_CASE("AloneUpdater: in ranges that are worth a call, and each parameter once") {
  Setup setup(50'000);
  setup.rank.workspace.status()[StatusBlock::samples] = 5;
  setup.rank.workspace.status()[StatusBlock::rows] = 5;
  CHECK(setup.updater->begin({.iteration = 3}) == Progress::variables);
  take_happened();
  setup.updater->ready(150);
  setup.updater->ready(9'105);  // not a multiple of what vectors hold
  setup.updater->ready(9'200);
  setup.updater->ready(40'100);
  CHECK(take_happened() == "update 0-9104 update 9104-40096 ");
  setup.updater->finish();
  CHECK(take_happened() == "update 40096-50000 ");
}

TEST_CASE("AloneUpdater: updates during backward what backward is done with") {
  Setup setup(50'000);
  setup.program.ends = {10'000, 40'000, 50'000};
  auto data = tiny_batches(7, 5);
  data.begin({});
  CHECK(setup.updater->name() == "each layer, as soon as backward is done with it");
  for (const double samples : {5.0, 2.0}) {
    const float before = setup.variables.parameters().values()[0];
    ls::detail::train_step(setup.rank.parts, *setup.updater, data, {});
    CHECK(take_happened() == "backward( update 0-10000 update 10000-40000 update 40000-50000 ) ");
    for (const float value : setup.variables.parameters().values())
      REQUIRE(value == before - static_cast<float>(0.5 / samples));
  }
}

TEST_CASE("AloneUpdater: no update without samples, nor of a loss that is not finite") {
  Setup setup(50'000);
  StatusBlock& status = setup.rank.workspace.status();
  const auto updates = [&](double samples, double non_finite, bool stop) {
    status.clear();
    status[StatusBlock::samples] = samples;
    status[StatusBlock::rows] = samples;
    status[StatusBlock::non_finite] = non_finite;
    setup.updater->begin({.stop_on_non_finite = stop});
    setup.updater->ready(50'000);
    setup.updater->finish();
    return !take_happened().empty();
  };
  CHECK_FALSE(updates(0, 0, false));
  CHECK_FALSE(updates(5, 1, true));
  CHECK(setup.variables.parameters_crc32c() ==
        ls::detail::Variables<float>(setup.program).parameters_crc32c());
  CHECK(updates(5, 1, false));
  CHECK(updates(5, 0, true));
}

TEST_CASE("AloneUpdater: the bits are those of an update after backward") {
  check_equal(ls::SGD{.learning_rate = 0.05});
  check_equal(ls::SGD{.learning_rate = 0.05, .momentum = 0.9});
  check_equal(ls::Adam{.learning_rate = 0.01});
}
