#include "lockstep/saving/batch_size.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"
#include "support/tcp_workers.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Net = ls::Sequential<ls::Input<4>, ls::Dense<8, ls::Tanh>, ls::Dropout<0.2>, ls::Dense<1>>;
constexpr ls::Adam adam{.learning_rate = 0.01};

auto rows(std::size_t count) {
  std::vector<float> x(4 * count), y(count);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
  for (std::size_t i = 0; i < count; ++i) y[i] = x[4 * i] - x[4 * i + 3];
  return ls::from_tensor_slices(ls::Tensor<float>(x, {count, 4}), y).shuffle(50);
}

/// A machine that needs 10 ms for a step, 1 ms for a sample and 10 us for each pair of samples, as
/// if large batches left the caches: it is fastest with batches of 32.
struct Machine {
  std::atomic<std::int64_t> read = 0;
  std::int64_t before = 0;
  double time = 0;

  double now() {
    const std::int64_t all = read, batch = all - before;
    before = all;
    const auto samples = static_cast<double>(batch);
    return time += 0.01 + 0.001 * samples + 1e-5 * samples * samples;
  }
};

template <class Model>
ls::BatchSizes find(Model& model, Machine& machine, const ls::FindBatchSizeOptions& options,
                    std::size_t count = 1'000) {
  return ls::detail::find_batch_size_by(model,
                                        rows(count).map([&machine](auto&) { ++machine.read; }),
                                        options, [&machine] { return machine.now(); });
}

std::vector<std::int64_t> batches_of(const ls::BatchSizes& found) {
  std::vector<std::int64_t> all;
  for (const auto& trial : found.trials) all.push_back(trial.batch);
  return all;
}

struct Outcome {
  std::uint32_t crc = 0;
  std::vector<double> losses;
  ls::BatchSizes found;
};

/// Two epochs, and between them a search, or none.
template <class S>
Outcome train(S& strategy, bool searches) {
  auto model = ls::compile<Net>(strategy, {.seed = 3}, ls::MeanSquaredError{}, adam);
  const auto batches = rows(100).batch(10);
  Outcome outcome;
  model.fit(batches, {.epochs = 1, .verbose = 0});
  if (searches) {
    Machine machine;
    machine.time = strategy.is_chief() ? 0 : 1e6;
    const std::uint32_t before = model.parameters_crc32c();
    outcome.found =
        find(model, machine, {.smallest = 8, .steps = 3, .warm_up = 1, .verbose = 0}, 300);
    CHECK(model.parameters_crc32c() == before);
    CHECK(model.iterations() == 10);
  }
  outcome.losses = model.fit(batches, {.epochs = 2, .verbose = 0})["loss"];
  outcome.crc = model.parameters_crc32c();
  return outcome;
}

}  // namespace

TEST_CASE("find_batch_size: the smallest batch that is about as fast as the fastest") {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::MeanSquaredError{}, adam);
  const CapturedStderr output;
  for (const auto& [tolerance, expected] : {std::pair{0.05, 32}, {0.1, 16}, {0.4, 8}}) {
    Machine machine;
    const ls::BatchSizes found =
        find(model, machine, {.smallest = 8, .steps = 4, .warm_up = 1, .tolerance = tolerance});
    // Two batches were slower: no larger one is measured.
    CHECK(batches_of(found) == std::vector<std::int64_t>{8, 16, 32, 64, 128});
    CHECK(found.suggestion == expected);
    CHECK(found.largest_fits == static_cast<std::int64_t>(ls::largest_batch<Net>(ls::GiB, adam)));
    for (const auto& trial : found.trials) {
      const auto batch = static_cast<double>(trial.batch);
      CHECK(trial.samples_per_second ==
            doctest::Approx(batch / (0.01 + 0.001 * batch + 1e-5 * batch * batch)));
      CHECK(trial.memory == ls::budget<Net>(static_cast<std::size_t>(trial.batch), adam).memory);
    }
  }
  CHECK(contains(output.text(), "find_batch_size: batches of 32: 612."));
  CHECK(contains(output.text(), "begin with batches of 32; the largest that fits has "));
  CHECK(model.iterations() == 0);
}

TEST_CASE("find_batch_size: no batch beyond what memory, options and data allow") {
  ls::MirroredStrategy strategy({.replicas = 2});
  auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::MeanSquaredError{}, adam);
  Machine machine;
  const auto batches = [&](ls::FindBatchSizeOptions options, std::size_t count = 1'000) {
    options.steps = 2;
    options.warm_up = 0;
    options.verbose = 0;
    return batches_of(find(model, machine, options, count));
  };
  using Batches = std::vector<std::int64_t>;
  CHECK(batches({.smallest = 5, .largest = 23}) == Batches{6, 12, 22});
  CHECK(batches({}, 41) == Batches{16, 32, 40});
  CHECK(batches({.smallest = 500, .largest = 500}, 10) == Batches{10});
  const std::size_t room = ls::budget<Net>(24, adam, 2).memory;
  const Batches in_room = batches({.memory = room});
  CHECK(in_room.front() == 16);
  CHECK(ls::budget<Net>(static_cast<std::size_t>(in_room.back()), adam, 2).memory <= room);
  CHECK(in_room.back() == static_cast<std::int64_t>(ls::largest_batch<Net>(room, adam, 2)));
  const auto error = [&](const ls::FindBatchSizeOptions& options, std::size_t count = 100) {
    return message_of<ls::ConfigurationError>([&] { find(model, machine, options, count); });
  };
  CHECK(contains(error({.memory = 100}),
                 "not even one sample for each of 2 ranks fits into 100 bytes"));
  CHECK(contains(error({}, 1), "a sample for each of 2 ranks, and .largest or the data allow 1"));
  CHECK(error({.smallest = 0}) == "find_batch_size: smallest must be at least 1, got 0");
  CHECK(error({.smallest = 8, .largest = 4}) ==
        "find_batch_size: largest must be at least smallest, got 4");
  CHECK(error({.steps = 0}) == "find_batch_size: steps must be at least 1, got 0");
  CHECK(error({.warm_up = -1}) == "find_batch_size: warm_up must be at least 0, got -1");
  CHECK(error({.tolerance = 1}) == "find_batch_size: tolerance must be in [0, 1), got 1");
}

TEST_CASE("find_batch_size: training goes on as if nothing had been measured") {
  ls::OneDeviceStrategy one;
  const Outcome alone = train(one, false);
  CHECK(train(one, true).crc == alone.crc);
  CHECK(train(one, true).losses == alone.losses);
  ls::MirroredStrategy two({.replicas = 2});
  const Outcome threads = train(two, false);
  CHECK(train(two, true).crc == threads.crc);
  for (const bool shares : {false, true}) {
    const auto workers = [&](bool searches) {
      std::vector<Outcome> all(2);
      const auto addresses = free_addresses(2);
      const auto thrown = run_threads(2, [&](int rank) {
        ls::Cluster cluster;
        cluster.spec.worker = addresses;
        cluster.task.index = rank;
        TcpStrategy strategy(
            cluster,
            {.replicas = 1, .communication_options = patient_options(), .sharded_updates = shares});
        all[static_cast<std::size_t>(rank)] = train(strategy, searches);
      });
      for (const auto& exception : thrown) REQUIRE(message_of(exception).empty());
      return all;
    };
    const auto undisturbed = workers(false), searched = workers(true);
    for (std::size_t worker = 0; worker < 2; ++worker) {
      CHECK(searched[worker].crc == undisturbed[worker].crc);
      CHECK(searched[worker].losses == undisturbed[worker].losses);
      CHECK(searched[worker].found.suggestion == searched[0].found.suggestion);
      CHECK(batches_of(searched[worker].found) == batches_of(searched[0].found));
    }
  }
}

TEST_CASE("find_batch_size: data that fail leave the model as it was") {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::MeanSquaredError{}, adam);
  const std::uint32_t before = model.parameters_crc32c();
  std::int64_t left = 100;
  const auto failing = rows(1'000).map([&left](auto&) {
    if (--left < 0) throw std::runtime_error("the disk is gone");
  });
  CHECK_THROWS_WITH(ls::find_batch_size(model, failing, {.verbose = 0}), "the disk is gone");
  CHECK(model.parameters_crc32c() == before);
  CHECK(model.iterations() == 0);
}
