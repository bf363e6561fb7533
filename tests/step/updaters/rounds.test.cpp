#include "lockstep/step/updaters/rounds.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "step/step_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// One of two ranks; the other one has done the same.
struct Twin : LonelyCollective {
  Twin() : LonelyCollective(2) {}
  using LonelyCollective::all_reduce;
  void all_reduce(std::span<double> status, ls::NumberSpan values) override {
    note("all-reduce");
    for (double& sum : status) sum *= 2;
    for (float& value : values.as<float>()) value *= 2;
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    note("all-gather");
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = mine[i % mine.size()];
  }
};

template <class C>
struct Setup {
  MadeUpProgram program{100};
  ls::detail::Variables<float> variables;
  Rank<float> rank;

  explicit Setup(const ls::Synchronization& synchronization, C collective = {})
      : variables(program, synchronization), rank(program, variables, std::move(collective)) {
    program.ends = {40, 100};
    take_happened();
  }

  [[nodiscard]] float weight() const { return variables.parameters().values()[7]; }
};

}  // namespace

TEST_CASE("RoundsUpdater: a rank updates alone until the round ends") {
  Setup<Twin> setup(ls::LocalSGD{.steps = 4});
  const auto updater = setup.rank.updater();
  CHECK(updater->name() == "LocalSGD(steps=4)");
  auto data = tiny_batches(15, 5);
  data.begin({});
  for (int step = 0; step < 3; ++step) {
    CAPTURE(step);
    ls::detail::train_step(setup.rank.parts, *updater, data, {.iteration = step});
    const std::string expected = "backward( ) update 112 elements ";
    const bool is_last = step == 2;  // of the data, which ends the round
    CHECK(take_happened() == (is_last ? expected + "all-gather all-reduce " : expected));
    CHECK(updater->missed_steps() == (is_last ? std::optional<std::int64_t>(0) : std::nullopt));
    // Gradients of 1 for 5 rows, and a learning rate of 0.5.
    CHECK(setup.weight() == doctest::Approx(-0.1 * (step + 1)));
    CHECK(setup.rank.workspace.status()[ls::detail::StatusBlock::samples] == (is_last ? 30 : 5));
  }
}

TEST_CASE("RoundsUpdater: the outer optimizer has a momentum of its own") {
  Setup<Twin> setup(ls::DiLoCo{.steps = 1, .learning_rate = 0.5, .momentum = 0.8});
  const auto updater = setup.rank.updater();
  auto data = tiny_batches(10, 5);
  data.begin({});
  double weight = 0, momentum = 0;
  for (int step = 0; step < 2; ++step) {
    ls::detail::train_step(setup.rank.parts, *updater, data, {.iteration = step});
    momentum = 0.8 * momentum + 0.1;
    weight -= 0.5 * (0.1 + 0.8 * momentum);
    CHECK(setup.weight() == doctest::Approx(weight));
  }
  CHECK(setup.variables.slots().size() == 1);
  CHECK(setup.variables.own_slots() == 0);
}

TEST_CASE("RoundsUpdater: clipping by a norm, and a rank alone that has nothing to average") {
  Setup<ls::Single> setup(ls::LocalSGD{.steps = 2});
  setup.program.rules.clipping.global_clipnorm = 0.1;  // of 100 gradients of 1: 0.01 each
  ls::detail::Variables<float> variables(setup.program, ls::LocalSGD{.steps = 2});
  const Rank rank(setup.program, variables, ls::Single{});
  const auto updater = rank.updater();
  auto data = tiny_batches(10, 5);
  data.begin({});
  for (int step = 0; step < 2; ++step) {
    ls::detail::train_step(rank.parts, *updater, data, {.iteration = step});
    CHECK(variables.parameters().values()[3] == doctest::Approx(-0.005 * (step + 1)));
    CHECK(updater->missed_steps().has_value() == (step == 1));
  }
}

TEST_CASE("Synchronization: what it says of itself") {
  CHECK(ls::Synchronization{}.description().empty());
  CHECK_FALSE(ls::Synchronization{}.is_in_rounds());
  CHECK(ls::Synchronization(ls::LocalSGD{}).description() == "LocalSGD(steps=16)");
  CHECK(ls::Synchronization(ls::DiLoCo{}).description() ==
        "DiLoCo(steps=500, learning_rate=0.7, momentum=0.9, nesterov=true)");
  CHECK(ls::Synchronization(ls::LocalSGD{}).is_mean());
  CHECK_FALSE(ls::Synchronization(ls::DiLoCo{}).is_mean());
  CHECK_THROWS_AS(ls::Synchronization(ls::DiLoCo{.learning_rate = -1}).validate(),
                  ls::ConfigurationError);
}
