#include "lockstep/step/step.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/strategies/replica.hpp"
#include "support/model_testing.hpp"

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
  Compiled compiled({.from_logits = true}, {.learning_rate = 0.5}, {});
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

// Ranks with parameters of their own, which communicate by shared memory, update a share of the parameters for all of them.

namespace {

/// Only reductions and updates; backward is made up.
template <class TestNet, class Optimizer = ls::SGD>
using Updated = ls::detail::Compiled<TestNet, float, ls::SparseCategoricalCrossentropy, Optimizer>;
/// With more parameters than fit into a short message, and gaps between them.
using LargeNet = ls::Sequential<ls::Input<300>, UserDense<70>, UserDense<5>>;
using SmallNet = ls::Sequential<ls::Input<5>, UserDense<3>>;

template <class C>
C make_compiled(const decltype(C::optimizer)& optimizer) {
  return C({.from_logits = true}, optimizer, {});
}

template <class State>
void initialize(State& state) {
  ls::detail::initialize<float>(state.variables, state.parameters().slices(), ls::RandomKey(1));
}

/// The gradients of a rank in a step, in all variables.
void draw(const ls::Arena<float>& gradients, int rank, int step) {
  for (std::size_t i = 0; i < gradients.slices().size(); ++i) {
    const auto slice = gradients.slices()[i];
    const int key = 1000 * step + 10 * static_cast<int>(i) + rank;
    const auto numbers = ls::testing::random_numbers<float>(key, slice.size());
    std::copy(numbers.begin(), numbers.end(), slice.begin());
  }
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

double samples_of(int rank) { return rank + 1.0; }

/// The parameters after each step, from the definition: gradients are summed in the order of the contract, and all of them used at once.
template <class C>
std::vector<std::vector<float>> expected_steps(const decltype(C::optimizer)& optimizer, int ranks, int steps) {
  C compiled = make_compiled<C>(optimizer);
  initialize(compiled.state);
  double samples = 0;
  for (int rank = 0; rank < ranks; ++rank) samples += samples_of(rank);
  std::vector<std::vector<float>> all{copy(compiled.state.parameters().values())};
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::vector<float>> gradients;
    for (int rank = 0; rank < ranks; ++rank) {
      const ls::Arena<float> drawn(C::Net::template variables<typename C::In>);
      draw(drawn, rank, step);
      gradients.push_back(copy(drawn.values()));
    }
    const std::vector<float> sums = ls::testing::contract_sum(gradients);
    compiled.update(sums, 0, samples, step);
    all.push_back(copy(compiled.state.parameters().values()));
  }
  return all;
}

/// A worker with one replica, as MultiWorkerMirroredStrategy and Model make it.
template <class C, class Outer>
struct Worker {
  ls::HierarchicalGroup<Outer> group;
  ls::CollectiveReplica<ls::Hierarchical<Outer>> replica{group.member(0), 0, 1};
  C compiled;
  typename C::Replica own{[this](std::size_t bytes) { return replica.collective().allocate(bytes); }};

  Worker(Outer& outer, const decltype(C::optimizer)& optimizer)
      : group(1, &outer), compiled(make_compiled<C>(optimizer)) {
    if (updates_for_all())
      compiled.state.allocate_parameters([this](std::size_t bytes) { return replica.collective().allocate(bytes); });
    initialize(compiled.state);
  }

  bool updates_for_all() { return ls::detail::can_update_for_all(compiled, replica); }
  std::vector<float> parameters() const { return copy(compiled.state.parameters().values()); }

  typename C::Status step(int number, double samples, double non_finite = 0) {
    draw(own.gradients(), replica.collective().rank(), number);
    typename C::Status status;
    status[C::Status::samples] = samples;
    status[C::Status::non_finite] = non_finite;
    ls::detail::GradientReduction reduction(replica.collective(), own.gradients().values(), own.overlap);
    ls::detail::reduce_and_update(compiled, own, replica, reduction, status, number, true);
    return status;
  }
};

template <class C, class Family>
void check_steps(const decltype(C::optimizer)& optimizer, int ranks, bool shares_memory) {
  CAPTURE(ranks);
  constexpr int steps = 4;
  const auto expected = expected_steps<C>(optimizer, ranks, steps);
  Family::run(ranks, [&](auto& collective) {
    Worker<C, std::remove_cvref_t<decltype(collective)>> worker(collective, optimizer);
    const auto require = [](bool condition, const char* what) {
      if (!condition) throw std::logic_error(what);
    };
    require(worker.updates_for_all() == (shares_memory && optimizer.momentum == 0), "the wrong way is gone");
    for (int step = 1; step <= steps; ++step) {
      const float* const before = worker.compiled.state.parameters().values().data();
      const auto status = worker.step(step, samples_of(collective.rank()));
      require(status[C::Status::samples] == ranks * (ranks + 1) / 2.0, "samples");
      require(worker.parameters() == expected[static_cast<std::size_t>(step)], "bits");
      const bool is_swapped = worker.compiled.state.parameters().values().data() != before;
      require(is_swapped == worker.updates_for_all(), "the arenas are swapped");
    }
    worker.step(steps + 1, 0);
    require(worker.parameters() == expected.back(), "changed without samples");
    worker.step(steps + 1, 1, collective.rank() == 0 ? 1 : 0);
    require(worker.parameters() == expected.back(), "changed by a loss that is not finite");
    for (const auto& arena : {worker.compiled.state.parameters().values(), worker.own.gradients().values()}) {
      double in_slices = 0, in_all = 0;
      for (const float value : arena) in_all += std::abs(static_cast<double>(value));
      const bool is_gradients = arena.data() == worker.own.gradients().values().data();
      const auto& slices = is_gradients ? worker.own.gradients() : worker.compiled.state.parameters();
      for (const auto slice : slices.slices())
        for (const float value : slice) in_slices += std::abs(static_cast<double>(value));
      require(std::abs(in_all - in_slices) <= 1e-9 * in_all, "not zero between slices");
    }
  });
}

/// SGD that does something else at its n-th call on this thread.
struct FailingSGD : ls::SGD {
  static inline thread_local int calls_left = 0;
  static inline thread_local void (*fail)() = nullptr;

  template <class T>
  void update(const ls::UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const {
    if (calls_left > 0 && --calls_left == 0) fail();
    ls::SGD::update(context, parameters, gradients, slots);
  }
};

/// Three ranks; in the middle of its share of the second step, rank 1 fails. The others must have the parameters after the first.
using FailingCompiled = Updated<LargeNet, FailingSGD>;
const FailingSGD failing_sgd{{.learning_rate = 0.25}};

template <class Outer>
void train_until_failure(Outer& outer, void (*fail)(), std::vector<float>& parameters) {
  Worker<FailingCompiled, Outer> worker(outer, failing_sgd);
  constexpr int calls_in_a_step = 7;  // a third of 21,440 parameters, in pieces of 1,024
  FailingSGD::calls_left = fail != nullptr ? calls_in_a_step + 3 : 0;
  FailingSGD::fail = fail;
  try {
    for (int step = 1;; ++step) worker.step(step, samples_of(outer.rank()));
  } catch (const std::exception& error) {
    parameters = worker.parameters();
    if (fail != nullptr) outer.abort(error.what());
    throw;
  }
}

}  // namespace

TEST_CASE_TEMPLATE("reduce_and_update: the bits do not depend on who updates", Family, ls::testing::TcpFamily,
                   ls::testing::SharedMemoryFamily, ls::testing::AutoFamily) {
  constexpr bool shares_memory = !std::is_same_v<Family, ls::testing::TcpFamily>;
  for (const int ranks : {2, 3}) {
    for (const double momentum : {0.0, 0.5}) {
      const ls::SGD optimizer{.learning_rate = 0.3, .momentum = momentum, .weight_decay = 0.01};
      check_steps<Updated<SmallNet>, Family>(optimizer, ranks, shares_memory);
      check_steps<Updated<LargeNet>, Family>(optimizer, ranks, shares_memory);
    }
  }
  const ls::SGD optimizer{.learning_rate = 0.3};
  check_steps<Updated<LargeNet>, Family>(optimizer, 4, shares_memory);
}

TEST_CASE("reduce_and_update: threads that share parameters have the bits of ranks that do not") {
  using C = Updated<LargeNet>;
  const ls::SGD optimizer{.learning_rate = 0.3, .weight_decay = 0.01};
  for (const int ranks : {2, 3}) {
    const auto expected = expected_steps<C>(optimizer, ranks, 3);
    C compiled = make_compiled<C>(optimizer);
    initialize(compiled.state);
    ls::InProcessGroup group(ranks);
    ls::testing::rethrow_first(ls::testing::run_threads(ranks, [&](int rank) {
      ls::CollectiveReplica<ls::InProcess> replica(group.member(rank), rank, ranks);
      C::Replica own([](std::size_t bytes) { return ls::Buffer(bytes); });
      for (int step = 1; step <= 3; ++step) {
        draw(own.gradients(), rank, step);
        C::Status status;
        status[C::Status::samples] = samples_of(rank);
        ls::detail::GradientReduction reduction(replica.collective(), own.gradients().values(), own.overlap);
        ls::detail::reduce_and_update(compiled, own, replica, reduction, status, step);
      }
    }));
    CHECK(copy(compiled.state.parameters().values()) == expected.back());
  }
}

TEST_CASE(
    "reduce_and_update: when a rank is killed while it updates its share, the others' parameters are as before the "
    "step") {
  const auto expected = expected_steps<FailingCompiled>(failing_sgd, 3, 1);
  ls::testing::LocalCluster cluster(3);
  std::vector<ls::Rendezvous> places;
  for (int rank = 0; rank < 3; ++rank) places.push_back(cluster.place(rank));
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  std::array<std::vector<float>, 3> parameters;
  if (process == 0) {
    try {
      auto outer = ls::Auto::connect(places[1], ls::testing::patient_options());
      train_until_failure(
          outer, [] { ::raise(SIGKILL); }, parameters[1]);
    } catch (...) {
    }
    ::_exit(1);
  }
  ::close(places[1].listen_socket);
  const auto thrown = ls::testing::run_threads(3, [&](int rank) {
    if (rank == 1) return;
    const auto r = static_cast<std::size_t>(rank);
    auto outer = ls::Auto::connect(places[r], ls::testing::patient_options());
    train_until_failure(outer, nullptr, parameters[r]);
  });
  int status = 0;
  ::waitpid(process, &status, 0);
  CHECK(WIFSIGNALED(status));
  for (const std::size_t rank : {0u, 2u}) {
    const auto failure = ls::testing::failure_of(thrown[rank]);
    CAPTURE(failure.reason);
    CHECK(failure.failed_rank == 1);
    CHECK(failure.operation == "reduce_scatter_all_gather");
    CHECK(failure.code == ls::ExitCode::lost_peer);
    CHECK(parameters[rank] == expected[1]);
  }
}

TEST_CASE(
    "reduce_and_update: when an optimizer throws while it updates its share, all ranks' parameters are as before the "
    "step") {
  const auto expected = expected_steps<FailingCompiled>(failing_sgd, 3, 1);
  std::array<std::vector<float>, 3> parameters;
  CHECK_THROWS(ls::testing::SharedMemoryFamily::run(3, [&](auto& outer) {
    const auto fail = outer.rank() == 1 ? +[] { throw std::runtime_error("no more ideas"); } : nullptr;
    train_until_failure(outer, fail, parameters[static_cast<std::size_t>(outer.rank())]);
  }));
  for (const std::vector<float>& values : parameters) CHECK(values == expected[1]);
}
