#include "lockstep/optimizers/schedules/cosine_decay_restarts.hpp"

#include <doctest/doctest.h>

#include "optimizers/schedules/schedule_testing.hpp"

using lockstep::CosineDecayRestarts;
namespace golden = lockstep_test::golden;
using lockstep_test::check_refused;
using lockstep_test::check_schedule;

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
