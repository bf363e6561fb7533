#include "lockstep/training/rank_times.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/comma_locale.hpp"

using namespace lockstep;

TEST_CASE(
    "rank times: the slowest is named; the least time in reductions is the wire's, the rest is "
    "waiting") {
  const std::vector<RankTime> two{{.compute = 0.060, .collective = 0.050},
                                  {.compute = 0.080, .collective = 0.030}};
  const lockstep_test::CommaLocale locale;  // changes nothing
  CHECK(
      detail::rank_times_text(two, 0, 10, 1) ==
      "replicas in epoch 1, ms a step: worker 0 compute 6.00 wait 2.00, worker 1 compute 8.00 wait "
      "0.00, wire 3.00; slowest: "
      "worker 1");
  CHECK(detail::rank_times_text(two, 1, 0, 1).find("replicas in epoch 2") ==
        0);  // an epoch without steps divides by nothing

  std::vector<RankTime> many(20, {.compute = 1, .collective = 1});
  many[13].compute = 3;
  many[2].compute = 2;
  many[19].compute = 0.5;
  CHECK(detail::rank_times_text(many, 0, 1000, 1) ==
        "replicas in epoch 1, ms a step: worker 13 compute 3.00 wait 0.00, worker 2 compute 2.00 "
        "wait "
        "0.00, worker 0 compute 1.00 "
        "wait 0.00, worker 1 compute 1.00 wait 0.00, worker 19 compute 0.50 wait 0.00, wire 1.00; "
        "slowest: worker 13");
}
