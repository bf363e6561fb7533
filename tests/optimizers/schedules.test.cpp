#include "lockstep/optimizers/schedules.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>

#include "golden/schedules.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"

namespace golden = lockstep_test::golden;
using lockstep::CosineDecay;
using lockstep::CosineDecayRestarts;
using lockstep::ExponentialDecay;
using lockstep::InverseTimeDecay;
using lockstep::PiecewiseConstantDecay;
using lockstep::PolynomialDecay;
using lockstep::WarmupStableDecay;

namespace {

/// The rates at golden::schedule_steps.
template <lockstep::LearningRateSchedule S>
void check_schedule(const S& schedule, std::span<const double> expected) {
  schedule.validate();
  REQUIRE(expected.size() == std::size(golden::schedule_steps));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(golden::schedule_steps[i]);
    CHECK(schedule(golden::schedule_steps[i]) == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

/// What validate() throws: a ConfigurationError.
template <lockstep::LearningRateSchedule S>
void check_refused(const S& schedule) {
  CHECK_THROWS_AS(schedule.validate(), lockstep::ConfigurationError);
}

}  // namespace

TEST_CASE("ExponentialDecay: golden values") {
  check_schedule(ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 100},
                 golden::exponential_decay);
  check_schedule(
      ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 100, .staircase = true},
      golden::exponential_decay_staircase);
}

TEST_CASE("ExponentialDecay: options") {
  CHECK(ExponentialDecay{}.description() ==
        "ExponentialDecay(initial_learning_rate=0.001, decay_steps=1000, decay_rate=0.96, "
        "staircase=false)");
  check_refused(ExponentialDecay{.initial_learning_rate = -1});
  check_refused(ExponentialDecay{.decay_steps = 0});
  check_refused(ExponentialDecay{.decay_rate = -1});
}

TEST_CASE("InverseTimeDecay: golden values") {
  check_schedule(InverseTimeDecay{.initial_learning_rate = 0.1, .decay_steps = 100},
                 golden::inverse_time_decay);
  check_schedule(
      InverseTimeDecay{.initial_learning_rate = 0.1, .decay_steps = 100, .staircase = true},
      golden::inverse_time_decay_staircase);
}

TEST_CASE("InverseTimeDecay: options") {
  CHECK(InverseTimeDecay{}.description() ==
        "InverseTimeDecay(initial_learning_rate=0.001, decay_steps=1000, decay_rate=0.5, "
        "staircase=false)");
  check_refused(InverseTimeDecay{.initial_learning_rate = -1});
  check_refused(InverseTimeDecay{.decay_steps = 0});
  check_refused(InverseTimeDecay{.decay_rate = -1});
}

TEST_CASE("PolynomialDecay: golden values") {
  check_schedule(
      PolynomialDecay{.initial_learning_rate = 0.1, .decay_steps = 100, .end_learning_rate = 0.01},
      golden::polynomial_decay);
  check_schedule(PolynomialDecay{.initial_learning_rate = 0.1,
                                 .decay_steps = 100,
                                 .end_learning_rate = 0.01,
                                 .power = 0.5,
                                 .cycle = true},
                 golden::polynomial_decay_cycle);
}

TEST_CASE("PolynomialDecay: options") {
  CHECK(PolynomialDecay{}.description() ==
        "PolynomialDecay(initial_learning_rate=0.001, decay_steps=1000, end_learning_rate=1e-04, "
        "power=1, "
        "cycle=false)");
  check_refused(PolynomialDecay{.initial_learning_rate = -1});
  check_refused(PolynomialDecay{.decay_steps = 0});
  check_refused(PolynomialDecay{.end_learning_rate = -1});
  check_refused(PolynomialDecay{.power = -1});
}

TEST_CASE("PiecewiseConstantDecay: golden values") {
  check_schedule(PiecewiseConstantDecay{.boundaries = {100, 300}, .values = {0.1, 0.01, 0.001}},
                 golden::piecewise_constant_decay);
}

TEST_CASE("PiecewiseConstantDecay: between equal boundaries is no step") {
  const PiecewiseConstantDecay schedule{.boundaries = {1, 1}, .values = {3, 2, 1}};
  CHECK(schedule(1) == 3);
  CHECK(schedule(2) == 1);
}

TEST_CASE("PiecewiseConstantDecay: options") {
  CHECK(PiecewiseConstantDecay{.boundaries = {100, 300}, .values = {0.1, 0.01, 0.001}}
            .description() ==
        "PiecewiseConstantDecay(values=0.1 until 100 then 0.01 until 300 then 0.001)");
  check_refused(PiecewiseConstantDecay{.boundaries = {}, .values = {-1}});
  check_refused(PiecewiseConstantDecay{.boundaries = {300, 299}, .values = {0.1, 0.01, 0.001}});
  CHECK_THROWS_WITH_AS((PiecewiseConstantDecay{.boundaries = {100}, .values = {0.1}}.validate()),
                       "PiecewiseConstantDecay: 1 boundaries want one value more, got 1 values",
                       lockstep::ConfigurationError);
}

TEST_CASE("CosineDecay: golden values") {
  check_schedule(CosineDecay{.initial_learning_rate = 0.3, .decay_steps = 1000, .alpha = 0.1},
                 golden::cosine_decay);
  check_schedule(CosineDecay{.initial_learning_rate = 0.01,
                             .decay_steps = 1000,
                             .alpha = 0.1,
                             .warmup_target = 0.1,
                             .warmup_steps = 100},
                 golden::cosine_decay_warmup);
}

TEST_CASE("CosineDecay: the corners are exact") {
  const CosineDecay schedule{
      .initial_learning_rate = 0, .decay_steps = 1000, .warmup_target = 0.1, .warmup_steps = 100};
  CHECK(schedule(0) == 0);
  CHECK(schedule(50) == 0.05);
  CHECK(schedule(100) == 0.1);
  CHECK(schedule(600) == 0.05);
  CHECK(schedule(1100) == 0);
}

TEST_CASE("CosineDecay: options") {
  CHECK(CosineDecay{.initial_learning_rate = 0.5}.description() ==
        "CosineDecay(initial_learning_rate=0.5, decay_steps=1000, alpha=0, warmup_target=none, "
        "warmup_steps=0)");
  check_refused(CosineDecay{.initial_learning_rate = -1});
  check_refused(CosineDecay{.alpha = -1});
  check_refused(CosineDecay{.warmup_target = -1});
  check_refused(CosineDecay{.warmup_steps = -1});
  CHECK_THROWS_WITH_AS(CosineDecay{.decay_steps = 0}.validate(),
                       "CosineDecay: decay_steps is 0; expected at least 1",
                       lockstep::ConfigurationError);
  CHECK_THROWS_WITH_AS(CosineDecay{.warmup_steps = 5}.validate(),
                       "CosineDecay: warmup_steps are given, but no warmup_target; set it to the "
                       "rate after the warm-up",
                       lockstep::ConfigurationError);
}

TEST_CASE("CosineDecayRestarts: golden values") {
  check_schedule(
      CosineDecayRestarts{
          .initial_learning_rate = 0.1, .first_decay_steps = 100, .m_mul = 0.9, .alpha = 0.05},
      golden::cosine_decay_restarts);
  check_schedule(
      CosineDecayRestarts{
          .initial_learning_rate = 0.1, .first_decay_steps = 100, .t_mul = 1, .m_mul = 0.9},
      golden::cosine_decay_restarts_equal);
}

TEST_CASE("CosineDecayRestarts: options") {
  CHECK(CosineDecayRestarts{}.description() ==
        "CosineDecayRestarts(initial_learning_rate=0.001, first_decay_steps=1000, t_mul=2, "
        "m_mul=1, alpha=0)");
  check_refused(CosineDecayRestarts{.initial_learning_rate = -1});
  check_refused(CosineDecayRestarts{.first_decay_steps = 0});
  check_refused(CosineDecayRestarts{.t_mul = 0.5});
  check_refused(CosineDecayRestarts{.m_mul = -1});
  check_refused(CosineDecayRestarts{.alpha = -1});
}

TEST_CASE("WarmupStableDecay: as llm.c computes it") {
  const WarmupStableDecay schedule{
      .learning_rate = 0.4, .steps = 1000, .warmup_steps = 10, .final_fraction = 0.5};
  CHECK(schedule(0) == doctest::Approx(0.04));
  CHECK(schedule(9) == 0.4);
  CHECK(schedule(10) == 0.4);
  CHECK(schedule(800) == 0.4);
  CHECK(schedule(850) == doctest::Approx(0.2 + 0.2 * 0.5));
  CHECK(schedule(1000) == 0.2);
  CHECK(schedule(5000) == 0.2);
}

TEST_CASE("WarmupStableDecay: options") {
  CHECK(WarmupStableDecay{}.description() ==
        "WarmupStableDecay(learning_rate=0.001, steps=1000, warmup_steps=0, decay_fraction=0.2, "
        "final_fraction=0)");
  check_refused(WarmupStableDecay{.learning_rate = -1});
  check_refused(WarmupStableDecay{.steps = 0});
  check_refused(WarmupStableDecay{.warmup_steps = -1});
  check_refused(WarmupStableDecay{.decay_fraction = 1.5});
  check_refused(WarmupStableDecay{.final_fraction = -1});
}
