#include "lockstep/model/steps.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "lockstep/collectives/in_process.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/model/compiled.hpp"
#include "lockstep/model/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/strategies/replica.hpp"
#include "model/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Passes its input on, and has a moving figure.
struct Moving : UserReLU {
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"moving", {2}, nullptr}};
};
using Net = ls::Sequential<ls::Input<4>, UserDense<3>, Moving>;
using Compiled = ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::SGD, ls::Accuracy>;
using Status = Compiled::Status;
using Data = ls::BatchLoader<float>;

/// All that a step needs, on one rank.
struct Setup {
  ls::CollectiveReplica<ls::Single> replica{ls::Single{}, 0, 1};
  Compiled compiled{{.from_logits = true}, {.learning_rate = 0.5, .momentum = 0.9}, {}};
  Compiled::Replica own{[](std::size_t bytes) { return ls::Buffer(bytes); }};
  Data data{{ls::AnyDataset(RowDataset(TinyData(7), 5)), {}}};

  Setup() {
    ls::detail::initialize<float>(compiled.state.variables, compiled.state.parameters().slices(), ls::RandomKey(1));
    data.begin({});
  }
  Status step(bool stop = false) { return ls::detail::train_step(compiled, own, replica, data, 0, {.stop = stop}); }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const auto& arena : {compiled.state.parameters().values(), compiled.state.slots()[0].values()})
      all.insert(all.end(), arena.begin(), arena.end());
    return all;
  }
};

}  // namespace

TEST_CASE("train_step: counts the samples, and says whether there is more and whether to stop") {
  Setup setup;
  const Status first = setup.step();
  CHECK(first[Status::samples] == 5);
  CHECK(first[Status::has_next] == 1);
  CHECK(first[Status::stop] == 0);
  CHECK(first[Status::loss_sum] > 0);
  CHECK(first.metrics()[1] == 5);
  const Status second = setup.step(true);
  CHECK(second[Status::samples] == 2);
  CHECK(second[Status::has_next] == 0);
  CHECK(second[Status::stop] == 1);
}

TEST_CASE("train_step: without samples nothing is changed, no parameter and no moment") {
  Setup setup;
  setup.step();
  setup.step();
  const std::vector<float> before = setup.values();
  const Status nothing = setup.step();
  CHECK(nothing[Status::samples] == 0);
  CHECK(nothing[Status::loss_sum] == 0);
  CHECK(setup.values() == before);
}

TEST_CASE("forward_batch: tells layers of the step, and makes the padding finite whatever the dataset left there") {
  Setup setup;
  CHECK(setup.data.next());
  setup.compiled.state.seed = 9;
  const ls::StepContext context =
      ls::detail::forward_batch(setup.compiled, setup.own, setup.replica, setup.data, true, true, 3);
  CHECK(context.training);
  CHECK(context.step == 3);
  CHECK(context.seed == 9);
  CHECK(context.sample_indices.size() == 5);
  CHECK(context.sample_indices[4] == 4);
  for (std::size_t i = 5; i < 16; ++i) {
    for (std::size_t f = 0; f < 4; ++f) CHECK(setup.own.x()(i, f) == 0.0F);
    CHECK(setup.own.targets()(i, 0) == 0.0F);
  }
  const ls::StepContext none =
      ls::detail::forward_batch(setup.compiled, setup.own, setup.replica, setup.data, false, true, 3);
  CHECK(none.sample_indices.empty());
  CHECK(setup.own.x().samples() == 0);
}

TEST_CASE("test_step: adds to the sums, and changes no parameter") {
  Setup setup;
  const std::vector<float> before = setup.values();
  Status sums;
  while (setup.data.next()) ls::detail::test_step(setup.compiled, setup.own, setup.replica, setup.data, sums);
  CHECK(sums[Status::samples] == 7);
  CHECK(sums.metrics()[1] == 7);
  CHECK(setup.values() == before);
}

TEST_CASE("reduce_and_update and cross_replica_sum: over all ranks; the untrained state is weighted with samples") {
  ls::InProcessGroup group(4);
  const Compiled compiled({.from_logits = true}, {.learning_rate = 0.5}, {});
  std::vector<std::thread> threads;
  std::array<std::vector<float>, 4> states;
  std::array<std::vector<double>, 4> sums;
  std::array<Status, 4> statuses;
  constexpr std::array<double, 4> samples{3, 1, 0, 4};
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      ls::CollectiveReplica<ls::InProcess> replica(group.member(rank), rank, 4);
      Compiled::Replica own([](std::size_t bytes) { return ls::Buffer(bytes); });
      const auto state = own.state().slices()[0];
      state[0] = rank == 2 ? std::numeric_limits<float>::infinity() : static_cast<float>(rank);
      state[1] = 0.1F;
      own.gradients().values()[0] = 2;
      statuses[r][Status::samples] = samples[r];
      statuses[r][Status::loss_sum] = 10;
      ls::detail::GradientReduction reduction(replica.collective(), own.gradients().values(), own.overlap);
      ls::detail::reduce_and_update(compiled, own, replica, reduction, statuses[r], 1);
      states[r] = {state.begin(), state.end()};
      sums[r] = {1.0 * rank, 100};
      ls::detail::cross_replica_sum(replica)(sums[r]);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(compiled.state.parameters().values()[0] == -0.5F * 8 / 8);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(states[rank] == std::vector<float>{(0 * 3 + 1 * 1 + 3 * 4) / 8.0F, 0.1F});
    CHECK(statuses[rank][Status::samples] == 8);
    CHECK(statuses[rank][Status::loss_sum] == 40);
    CHECK(sums[rank] == std::vector<double>{6, 400});
  }
}

TEST_CASE("reduce_and_update: alone it leaves the bits of the untrained state as they are") {
  Setup setup;
  setup.own.state().slices()[0][0] = 0.1F;
  Status status;
  status[Status::samples] = 3;
  ls::detail::GradientReduction reduction(setup.replica.collective(), setup.own.gradients().values(),
                                          setup.own.overlap);
  ls::detail::reduce_and_update(setup.compiled, setup.own, setup.replica, reduction, status, 1);
  CHECK(setup.own.state().slices()[0][0] == 0.1F);
}
