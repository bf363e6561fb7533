// Start-ups over a simulated network, in which processes are killed and started again at any
// moment, and ways are cut for a while.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collectives/simulated_schedules.hpp"
#include "collectives/simulated_startup.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "support/simulated_network.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using State = SimulatedWorker::State;

/// Workers that a launcher starts again, whenever one has failed or was killed.
class Job {
 public:
  Job(int world, std::uint64_t seed)
      : network(world, seed, some_weather(seed)), addresses_(simulated_addresses(world)) {
    current_.resize(addresses_.size());
    for (int rank = 0; rank < world; ++rank) start_later(rank, 3s);
  }

  void start_later(int rank, SimulatedNetwork::Duration most) {
    network.after(network.random_time(0ms, most), [this, rank] {
      if (!network.is_alive(rank) && starts_again) start(rank);
    });
  }
  void start(int rank) {
    workers_.push_back(
        std::make_unique<SimulatedWorker>(network, addresses_, rank, std::chrono::seconds(30)));
    current_[static_cast<std::size_t>(rank)] = workers_.back().get();
  }
  void kill(int rank) {
    network.kill(rank);
    start_later(rank, 2s);
  }

  /// Until all ranks are at work, or the time is over; those that have failed are started again.
  void run(SimulatedNetwork::Duration time) {
    const auto end = network.now() + time;
    while (!are_all_at_work() && network.now() < end) {
      network.run_until(std::min(end, network.now() + 100ms), [this] { return are_all_at_work(); });
      for (int rank = 0; rank < network.size(); ++rank)
        if (!network.is_alive(rank)) start_later(rank, 1s);
    }
  }

  [[nodiscard]] bool are_all_at_work() const {
    for (int rank = 0; rank < static_cast<int>(current_.size()); ++rank) {
      const auto* const worker = current_[static_cast<std::size_t>(rank)];
      if (worker == nullptr || worker->state() != State::at_work || !network.is_alive(rank))
        return false;
    }
    return true;
  }

  /// Two workers that have one process in common have met all the same processes.
  [[nodiscard]] std::string disagreement() const {
    std::set<std::vector<std::uint64_t>> meetings;
    for (const auto& worker : workers_)
      if (!worker->met().empty()) meetings.insert(worker->met());
    for (const auto& one : meetings)
      for (const auto& other : meetings)
        for (std::size_t rank = 0; &one != &other && rank < one.size(); ++rank)
          if (one[rank] != 0 && one[rank] == other[rank] && differ(one, other))
            return "two meetings have process " + std::to_string(one[rank]) + " of rank " +
                   std::to_string(rank) + ", and others of another rank";
    return {};
  }
  [[nodiscard]] std::string states() const {
    std::string text;
    for (const auto* worker : current_)
      text += worker == nullptr                    ? " none"
              : worker->state() == State::at_work  ? " at work"
              : worker->state() == State::starting ? " starting"
                                                   : " failed: " + worker->failure().reason;
    return text;
  }
  [[nodiscard]] const SimulatedWorker* worker(int rank) const {
    return current_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string first_twin() const {
    for (const auto& worker : workers_)
      if (worker->state() == State::failed &&
          worker->failure().reason.find("twice") != std::string::npos)
        return "a process was taken for the twin of one that has ended";
    return {};
  }

  SimulatedNetwork network;
  bool starts_again = true;

 private:
  /// Of a rank that both have met, they have met two processes.
  static bool differ(const std::vector<std::uint64_t>& one,
                     const std::vector<std::uint64_t>& other) {
    for (std::size_t rank = 0; rank < one.size(); ++rank)
      if (one[rank] != 0 && other[rank] != 0 && one[rank] != other[rank]) return true;
    return false;
  }

  const std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::vector<SimulatedWorker*> current_;  // by rank
};

/// Empty if all went well.
std::string start_with_troubles(std::uint64_t seed, int world) {
  Job job(world, seed);
  SimulatedNetwork& network = job.network;
  const auto troubles = network.random(5);
  for (std::uint64_t i = 0; i < troubles; ++i) {
    const auto time = network.random_time(0ms, 6s);
    const int host = network.random_host();
    const int other =
        (host + 1 +
         static_cast<int>(network.random(static_cast<std::uint64_t>(network.size() - 1)))) %
        network.size();
    const auto kind = network.random(4);
    const auto duration = network.random_time(1ms, kind == 3 ? 2s : 5s);
    network.after(time, [&job, &network, host, other, kind, duration] {
      if (kind <= 1) return job.kill(host);
      if (kind == 3) {
        network.freeze(host);
        return network.after(duration, [&network, host] { network.thaw(host); });
      }
      network.cut(host, other);
      network.after(duration, [&network, host, other] { network.heal(host, other); });
    });
  }
  network.run_until(network.now() + 8s, [] { return false; });
  job.run(120s);
  if (!job.are_all_at_work()) return "they have not come together:" + job.states();
  if (auto twin = job.first_twin(); !twin.empty()) return twin;
  return job.disagreement();
}

/// One rank never comes: all others say so, in time.
std::string start_without_one(std::uint64_t seed, int world) {
  SimulatedNetwork network(world, seed, some_weather(seed));
  const auto addresses = simulated_addresses(world);
  const int missing = network.random_host();
  std::vector<std::unique_ptr<SimulatedWorker>> workers;
  for (int rank = 0; rank < world; ++rank)
    if (rank != missing)
      workers.push_back(std::make_unique<SimulatedWorker>(network, addresses, rank, 30s));
  network.run_until(network.now() + 40s, [] { return false; });
  for (const auto& worker : workers) {
    if (worker->state() != State::failed) return "a worker waits beyond its deadline";
    if (worker->failure().failed_rank != missing)
      return "a worker names rank " + std::to_string(worker->failure().failed_rank) + ", not " +
             std::to_string(missing) + ": " + worker->failure().reason;
  }
  return {};
}

/// Workers that are there within a second.
struct Starts {
  Starts(int world, std::uint64_t seed) : network(world, seed, some_weather(seed)) {
    const auto addresses = simulated_addresses(world);
    for (int rank = 0; rank < world; ++rank)
      network.after(network.random_time(0ms, 1s),
                    [this, addresses, rank] { start(addresses, rank); });
  }
  void start(const std::vector<std::string>& addresses, int rank) {
    workers[rank] = std::make_unique<SimulatedWorker>(network, addresses, rank, 300s);
  }
  [[nodiscard]] bool is_at_work(int rank) const {
    const auto known = workers.find(rank);
    return known != workers.end() && !known->second->met().empty();
  }

  SimulatedNetwork network;
  std::map<int, std::unique_ptr<SimulatedWorker>> workers;
};

/// A rank dies around the moment in which rank 0 says go, and is started again, or not. Where rank
/// 0 is at work, all others soon fail and name it. `unseen` counts those of which no rank at work
/// knew that one.
std::string lose_one_around_go(std::uint64_t seed, int world, int& unseen) {
  Starts without(world, seed);
  without.network.run_until(without.network.now() + 60s, [&] { return without.is_at_work(0); });
  if (!without.is_at_work(0)) return "they have not come together";
  const auto go = without.network.now();

  std::mt19937_64 random(seed);  // not the network's: until then, all must be the same
  std::vector<int> strangers;
  for (int rank = 1; rank < world; ++rank)
    if (!detail::are_partners(0, rank, world)) strangers.push_back(rank);
  const int victim = strangers.empty() || random() % 4 == 0
                         ? 1 + static_cast<int>(random() % static_cast<std::uint64_t>(world - 1))
                         : strangers[random() % strangers.size()];
  const auto most = some_weather(seed).most;
  const auto time = go - most + 3 * most / 2 * static_cast<int>(random() % 1000) / 1000;
  const bool comes_again = random() % 2 == 0;
  const auto pause = std::chrono::milliseconds(1 + random() % 2000);

  Starts starts(world, seed);
  SimulatedNetwork& network = starts.network;
  std::unique_ptr<SimulatedWorker> dead;
  std::uint64_t process = 0;
  network.at(time, [&] {
    process = static_cast<std::uint64_t>(network.process(victim));
    network.kill(victim);
    dead = std::move(starts.workers[victim]);
    starts.workers.erase(victim);
    if (comes_again)
      network.after(pause, [&] { starts.start(simulated_addresses(world), victim); });
  });
  network.run_until(time + 10s, [] { return false; });
  if (!starts.is_at_work(0) ||
      starts.workers[0]->met()[static_cast<std::size_t>(victim)] != process)
    return {};  // it has seen the end, and waits for another process, or has found it
  bool is_unseen = true;
  for (const auto& [rank, worker] : starts.workers) {
    if (rank == victim) continue;
    const std::string name = "rank " + std::to_string(rank);
    if (worker->state() == State::starting) return name + " still waits";
    if (worker->state() == State::at_work) return name + " is still at work";
    const CollectiveFailure& failure = worker->failure();
    if (failure.failed_rank != victim)
      return name + " names rank " + std::to_string(failure.failed_rank) + ", not " +
             std::to_string(victim) + ": " + failure.reason;
    is_unseen = is_unseen && failure.reason.find("told to begin") != std::string::npos;
  }
  unseen += is_unseen;
  return {};
}

// All connected with all; and too many for that.
int few(std::uint64_t seed) { return 2 + static_cast<int>(seed % 4); }
int many(std::uint64_t seed) { return 9 + static_cast<int>(seed % 12); }

}  // namespace

TEST_SUITE("simulated start-up") {
  TEST_CASE(
      "whatever happens meanwhile, all ranks come together, and no process meets two others of one "
      "rank") {
    try_schedules([](auto seed) { return start_with_troubles(seed, few(seed)); }, 1000,
                  {405, 437, 2349, 3629});
    try_schedules([](auto seed) { return start_with_troubles(seed, many(seed)); }, 100, {});
  }
  TEST_CASE("a rank that never comes is named by all others when the time is over") {
    try_schedules([](auto seed) { return start_without_one(seed, few(seed)); }, 50, {});
    try_schedules([](auto seed) { return start_without_one(seed, many(seed)); }, 20, {});
  }
  TEST_CASE("a rank that dies while rank 0 says go is named by all others, in seconds") {
    int unseen = 0;
    try_schedules([&](auto seed) { return lose_one_around_go(seed, many(seed), unseen); }, 200,
                  {3, 19, 30, 64});
    CHECK(unseen > 0);
    try_schedules(
        [&](auto seed) { return lose_one_around_go(seed, 4 + static_cast<int>(seed % 4), unseen); },
        50, {});
  }
  TEST_CASE("a schedule is the same when it is run again") {
    for (const std::uint64_t seed : {3u, 7u}) {
      Job one(4, seed), other(4, seed);
      for (Job* job : {&one, &other}) {
        job->network.after(1500ms, [job] { job->kill(1); });
        job->run(60s);
      }
      CHECK(one.are_all_at_work());
      CHECK(one.network.now() == other.network.now());
      CHECK(one.network.random(1 << 30) == other.network.random(1 << 30));
    }
  }
}
