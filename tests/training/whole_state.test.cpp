// That fit compares them is shown in tests/training/workers.test.cpp.
#include "lockstep/training/whole_state.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/step/compiled.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;

namespace {

using Sums = std::vector<ls::detail::ReplicaChecksums>;

std::string difference(const Sums& sums, std::size_t local_size = 1) {
  return ls::detail::replica_difference(sums, local_size).value_or("none");
}

/// Passes its input on, and has a moving figure.
struct Moving : lockstep_test::UserReLU {
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"moving", {2}, nullptr}};
};

}  // namespace

TEST_CASE(
    "replica checksums: each sum is of its own part; replicas but the first have that of untrained "
    "state") {
  using Net = ls::Sequential<ls::Input<4>, lockstep_test::UserDense<3>, Moving>;
  const ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::Adam> program(
      {}, {}, {});
  ls::detail::Variables<float> variables(program);
  const ls::detail::Workspace<float> workspace(program,
                                               [](std::size_t bytes) { return ls::Buffer(bytes); });
  const auto sums = [&](bool leader = true) {
    const auto all = ls::detail::checksums_of(variables, workspace, leader);
    return std::array<std::uint32_t, 4>{all.parameters, all.slots, all.counters, all.untrained};
  };
  const auto changed_by_call = [&](auto&& change) {
    const auto before = sums();
    change();
    const auto after = sums();
    std::string parts;
    for (std::size_t i = 0; i < 4; ++i) parts += before.at(i) != after.at(i) ? '1' : '0';
    return parts;
  };
  const auto changed_by = [&](auto& value) { return changed_by_call([&] { value += 1; }); };
  CHECK(changed_by(variables.parameters().slices()[1][2]) == "1000");
  CHECK(changed_by(variables.slots()[1].slices()[0][5]) == "0100");
  CHECK(changed_by_call([&] { variables.set_learning_rate(2); }) == "0010");
  CHECK(changed_by(variables.previous_learning_rate) == "0010");
  CHECK(changed_by(variables.iterations) == "0010");
  CHECK(changed_by(workspace.state().slices()[0][1]) == "0001");
  const auto leader = sums();
  CHECK(sums(false) == std::array<std::uint32_t, 4>{0, 0, 0, leader[3]});
}

TEST_CASE("replica checksums: equal ones are no difference") {
  CHECK(difference({{1, 2, 3, 4}}) == "none");
  CHECK(difference({{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}}) == "none");
  // The replicas of a worker share all but the untrained state.
  CHECK(difference({{1, 2, 3, 4}, {.untrained = 4}, {1, 2, 3, 4}, {.untrained = 4}}, 2) == "none");
}

TEST_CASE("replica checksums: the ranks that differ from the majority are named, and in what") {
  CHECK(difference({{1, 2, 3, 4}, {9, 2, 3, 4}, {1, 2, 3, 4}}) ==
        "worker 1 differs from the 2 others, which are equal, in: parameters");
  CHECK(difference({{9, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 8, 4}, {1, 2, 3, 4}}) ==
        "worker 0 and worker 3 differ from the 3 others, which are equal, in: parameters, the "
        "learning "
        "rate or the number of "
        "updates");
  CHECK(difference({{1, 7, 3, 4}, {1, 2, 3, 4}}) ==
        "worker 0 and worker 1 differ, and there is no majority, in: the optimizer's slots");
  CHECK(difference({{1, 2, 3, 4}, {.untrained = 5}, {1, 2, 3, 4}, {.untrained = 4}}, 2) ==
        "worker 0, replica 1 differs from the 3 others, which are equal, in: untrained state");
  // What a worker's first replica has, its others have too.
  CHECK(difference({{1, 2, 3, 4},
                    {.untrained = 4},
                    {1, 2, 3, 4},
                    {.untrained = 4},
                    {8, 2, 3, 4},
                    {.untrained = 4}},
                   2) ==
        "worker 2, replica 0 and worker 2, replica 1 differ from the 4 others, which are equal, "
        "in: parameters");
}
