// Ranks with parameters of their own, which communicate by shared memory, update a share of the
// parameters for all of them.
#include "lockstep/step/updaters/shared_memory.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "step/step_testing.hpp"
#include "step/updaters/expected_updates.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

const std::string route =
    "each worker updates a share (reduce-scatter and all-gather in shared memory)";

/// Gives each rank all of the values as its share.
class CollectiveThatShares : public LonelyCollective {
 public:
  explicit CollectiveThatShares(int size) : LonelyCollective(size, {.share = true}) {}
  void reduce_scatter_all_gather(std::span<double> status, ls::NumberSpan values,
                                 ls::UseSums f) override {
    note("share(");
    const auto numbers = values.as<float>();
    const std::vector<float> sums(numbers.begin(), numbers.end());
    f(status, 0, std::span(sums), values);
    note(")");
  }
};

/// SGD that does something else at its n-th call on this thread.
struct FailingSGD : ls::SGD {
  static inline thread_local int calls_left = 0;
  static inline thread_local void (*fail)() = nullptr;

  template <class T>
  void update(const ls::UpdateContext& context, std::span<T> parameters,
              std::span<const T> gradients, std::span<T* const> slots) const {
    if (calls_left > 0 && --calls_left == 0) fail();
    ls::SGD::update(context, parameters, gradients, slots);
  }
};

const Updated<LargeNet, FailingSGD> failing({.from_logits = true}, {{.learning_rate = 0.25}}, {});

/// Three ranks; in the middle of its share of the second step, rank 1 fails. The others must have
/// the parameters after the first.
template <class Outer>
void train_until_failure(Outer& outer, void (*fail)(), std::vector<float>& parameters) {
  Worker worker(outer, failing);
  require(worker.updater->name() == route, "another route");
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

TEST_CASE("SharedMemoryUpdater: after backward, new parameters take the place of the gradients") {
  MadeUpProgram program(1'000);
  program.ends = {100, 1'000};
  ls::detail::Variables<float> variables(program);
  const Rank rank(program, variables, CollectiveThatShares(2));
  const float* const parameters = variables.parameters().values().data();
  const float* const gradients = rank.workspace.gradients().values().data();
  const auto updater = rank.updater();
  CHECK(updater->name() == route);
  auto data = tiny_batches(5, 5);
  data.begin({});
  take_happened();
  ls::detail::train_step(rank.parts, *updater, data, {});
  CHECK(take_happened() == "backward( ) share( update 1008 elements ) ");
  CHECK(variables.parameters().values().data() == gradients);
  CHECK(rank.workspace.gradients().values().data() == parameters);
  for (const float value : variables.parameters().slices()[0]) REQUIRE(value == -0.5F / 5);
}

TEST_CASE_TEMPLATE("SharedMemoryUpdater: the bits do not depend on who updates", Family,
                   lockstep_test::SharedMemoryFamily, lockstep_test::AutoFamily) {
  for (const int ranks : {2, 3})
    for (const double momentum : {0.0, 0.5}) {
      const std::string expected_route =
          momentum == 0 ? route : "all-reduce";  // slots stay with their rank
      const ls::SGD optimizer{.learning_rate = 0.3, .momentum = momentum, .weight_decay = 0.01};
      check_steps<Family>(Updated<SmallNet>({.from_logits = true}, optimizer, {}), ranks,
                          expected_route);
      check_steps<Family>(Updated<LargeNet>({.from_logits = true}, optimizer, {}), ranks,
                          expected_route);
    }
  check_steps<Family>(Updated<LargeNet>({.from_logits = true}, {.learning_rate = 0.3}, {}), 4,
                      route);
}

TEST_CASE(
    "SharedMemoryUpdater: when a rank is killed while it updates its share, the others' parameters "
    "are as before the "
    "step") {
  const auto expected = expected_steps(failing, 3, 1);
  lockstep_test::LocalCluster cluster(3);
  std::vector<ls::Rendezvous> places;
  for (int rank = 0; rank < 3; ++rank) places.push_back(cluster.place(rank));
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  std::array<std::vector<float>, 3> parameters;
  if (process == 0) {
    try {
      const auto outer = ls::Auto::connect(places[1], lockstep_test::patient_options());
      train_until_failure(
          *outer, [] { ::raise(SIGKILL); }, parameters[1]);
    } catch (...) {
    }
    ::_exit(1);
  }
  ::close(places[1].listen_socket);
  const auto thrown = lockstep_test::run_threads(3, [&](int rank) {
    if (rank == 1) return;
    const auto r = static_cast<std::size_t>(rank);
    const auto outer = ls::Auto::connect(places[r], lockstep_test::patient_options());
    train_until_failure(*outer, nullptr, parameters[r]);
  });
  int status = 0;
  ::waitpid(process, &status, 0);
  CHECK(WIFSIGNALED(status));
  for (const std::size_t rank : {0u, 2u}) {
    const auto failure = lockstep_test::failure_of(thrown[rank]);
    CAPTURE(failure.reason);
    CHECK(failure.failed_rank == 1);
    CHECK(failure.operation == "reduce_scatter_all_gather");
    CHECK(failure.code == ls::ExitCode::lost_peer);
    CHECK(parameters[rank] == expected[1]);
  }
}

TEST_CASE(
    "SharedMemoryUpdater: when an optimizer throws while it updates its share, all ranks' "
    "parameters are as before the "
    "step") {
  const auto expected = expected_steps(failing, 3, 1);
  std::array<std::vector<float>, 3> parameters;
  CHECK_THROWS(lockstep_test::SharedMemoryFamily::run(3, [&](auto& outer) {
    const auto fail =
        outer.rank() == 1 ? +[] { throw std::runtime_error("no more ideas"); } : nullptr;
    train_until_failure(outer, fail, parameters[static_cast<std::size_t>(outer.rank())]);
  }));
  for (const std::vector<float>& values : parameters) CHECK(values == expected[1]);
}
