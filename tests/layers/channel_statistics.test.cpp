#include "lockstep/layers/channel_statistics.hpp"

#include <doctest/doctest.h>

#include <span>

namespace ls = lockstep;

TEST_CASE("channel statistics: the moments of two replicas become those of both") {
  // Values 1, 2 and 6 here; 3 and 8 there.
  ls::detail::ChannelStatistics<1> here, there;
  here.count() = 3;
  here.first()[0] = 3;
  here.second()[0] = 14;
  there.count() = 2;
  there.first()[0] = 5.5;
  there.second()[0] = 12.5;
  const auto add = [](void* other, std::span<double> values) {
    const auto& moments = *static_cast<ls::detail::ChannelStatistics<1>*>(other);
    values[0] += moments.values[0];
    values[1] += moments.values[0] * moments.values[1];
    values[2] += moments.values[2] + moments.values[0] * moments.values[1] * moments.values[1];
  };
  ls::detail::combine_moments(here, ls::CrossReplicaSum(&there, add));
  CHECK(here.count() == 5);
  CHECK(here.first()[0] == doctest::Approx(4));
  CHECK(here.second()[0] == doctest::Approx(34));
}

TEST_CASE("channel statistics: without samples anywhere nothing is divided by zero") {
  ls::detail::ChannelStatistics<2> none{};
  ls::detail::combine_moments(none, ls::CrossReplicaSum());
  CHECK(none.first()[1] == 0);
  CHECK(none.second()[1] == 0);
}
