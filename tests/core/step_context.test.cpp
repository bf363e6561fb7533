#include "lockstep/core/step_context.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

namespace ls = lockstep;

TEST_CASE("MomentSink: hands moments on; without a function it is false") {
  static_assert(!ls::MomentSink{});
  double count = 0;
  const ls::MomentSink sink(&count, [](void* self, const ls::InputMoments& moments) {
    *static_cast<double*>(self) += moments.count;
  });
  REQUIRE(static_cast<bool>(sink));
  sink({.count = 3});
  sink({.count = 4});
  CHECK(count == 7);

  const ls::MomentSink both(
      &count, [](void*, const ls::InputMoments&) {},
      [](void* self, const ls::InputValues& values) {
        *static_cast<double*>(self) += static_cast<double>(values.values.size());
      });
  const std::array<float, 5> values{};
  sink(ls::InputValues{.values = values});  // it has no function for them
  both(ls::InputValues{.values = values});
  CHECK(count == 12);
}

TEST_CASE(
    "StepContext: random keys depend on seed, step, layer and the sample's global index, and not "
    "on its row") {
  const std::array<std::int64_t, 3> all{40, 41, 42};
  const std::array<std::int64_t, 1> part{42};
  ls::StepContext one{.training = true,
                      .step = 5,
                      .layer = 2,
                      .seed = 7,
                      .sample_indices = all,
                      .cross_replica_sum = {}};
  ls::StepContext other = one;
  other.sample_indices = part;
  CHECK(one.random_key(2).value() == other.random_key(0).value());
  CHECK(one.random_key(0).value() != one.random_key(1).value());

  const std::uint64_t key = one.random_key(0).value();
  ls::StepContext changed = one;
  changed.seed = 8;
  CHECK(changed.random_key(0).value() != key);
  changed = one;
  changed.step = 6;
  CHECK(changed.random_key(0).value() != key);
  changed = one;
  changed.layer = 3;
  CHECK(changed.random_key(0).value() != key);
}

TEST_CASE("CrossReplicaSum: does nothing with one rank, and calls its function otherwise") {
  std::array<double, 2> values{1, 2};
  ls::CrossReplicaSum{}(values);
  CHECK(values == std::array<double, 2>{1, 2});

  double factor = 3;
  const ls::CrossReplicaSum three_replicas(&factor, [](void* self, std::span<double> sums) {
    for (double& sum : sums) sum *= *static_cast<double*>(self);
  });
  three_replicas(values);
  CHECK(values == std::array<double, 2>{3, 6});
}
