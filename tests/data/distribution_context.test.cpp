#include "lockstep/data/distribution_context.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

TEST_CASE("DistributionContext: ranks count worker by worker") {
  constexpr ls::DistributionContext context{
      .num_workers = 3, .worker = 2, .local_replicas = 4, .local_replica = 1};
  static_assert(context.num_ranks() == 12 && context.rank() == 9);
  static_assert(ls::DistributionContext{}.num_ranks() == 1 &&
                ls::DistributionContext{}.rank() == 0);
}
