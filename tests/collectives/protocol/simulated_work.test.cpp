// All-reduces of ranks over a simulated network, in which processes, hosts and ways fail.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/simulated_ranks.hpp"
#include "collectives/simulated_schedules.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "support/simulated_network.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// What happens once in a schedule, to a rank or between two.
enum class Trouble {
  nothing,
  pause,      ///< the process is stopped, for less than the timeout
  brief_cut,  ///< a way is cut, for less than the timeout
  kill,
  vanish,  ///< the machine loses its power
  freeze,
  gives_up,  ///< the program throws
  isolate,   ///< the machine loses its network
  cut,       ///< between two
  cut_one_way,
  reset_control,
  reset_data,
  several,  ///< two to four of these
};
constexpr std::uint64_t kinds = 13;

/// A job of all-reduces, and what is done to it.
class Work {
 public:
  Work(int world, std::uint64_t seed, std::size_t length = 0)
      : network(world, seed, some_weather(seed)), addresses_(simulated_addresses(world)) {
    if (length > 0) length_ = length;
    options_.timeout = 2000ms;
    options_.progress_timeout = 10s;
    options_.implementation =
        seed % 2 == 0 ? CommunicationImplementation::ring : CommunicationImplementation::gather;
    options_.bytes_per_pack = seed % 7 == 0 ? 64 : 0;
    for (int rank = 0; rank < world; ++rank)
      ranks_.push_back(std::make_unique<SimulatedRank>(network, addresses_, rank, options_));
    for (int rank = 0; rank < world; ++rank)
      for (int other = rank + 1; other < world; ++other) at(rank).meet(at(other));
    wrong_.resize(ranks_.size());
    for (int rank = 0; rank < world; ++rank) at(rank).begin([this, rank] { program(rank); });
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() {
    for (int rank = 0; rank < network.size(); ++rank) network.kill(rank);
    for (const auto& rank : ranks_) rank->bury();
  }

  [[nodiscard]] SimulatedRank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  void suffer(Trouble trouble) {
    const int host = network.random_host();
    const int other =
        (host + 1 +
         static_cast<int>(network.random(static_cast<std::uint64_t>(network.size() - 1)))) %
        network.size();
    const auto briefly = network.random_time(1ms, 800ms);
    switch (trouble) {
      case Trouble::nothing:
      case Trouble::several:
        return;
      case Trouble::pause:
        network.freeze(host);
        return network.after(briefly, [this, host] { network.thaw(host); });
      case Trouble::brief_cut:
        network.cut(host, other);
        if (network.random(2) == 0) network.cut(other, host);
        return network.after(briefly, [this, host, other] {
          network.heal(host, other);
          network.heal(other, host);
        });
      case Trouble::kill:
        return kill(host);
      case Trouble::vanish:
        blame(host);
        gone_.insert(host);
        return network.vanish(host);
      case Trouble::freeze:
        blame(host);
        gone_.insert(host);
        return network.freeze(host);
      case Trouble::gives_up:
        blame(host);
        gives_up_ = host;
        return;
      case Trouble::isolate:
        blame(host);
        if (network.size() == 2) blame(other);  // each hears nothing of the other one
        isolated_.insert(host);
        for (int each = 0; each < network.size(); ++each)
          if (each != host) {
            network.cut(host, each);
            network.cut(each, host);
          }
        return;
      case Trouble::cut:
        network.cut(other, host);
        [[fallthrough]];
      case Trouble::cut_one_way:
        part(host, other);
        return network.cut(host, other);
      case Trouble::reset_control:
      case Trouble::reset_data:
        part(host, other);
        return at(host).reset(other, trouble == Trouble::reset_control);
    }
  }

  void kill(int rank) {
    blame(rank);
    gone_.insert(rank);
    network.kill(rank);
  }
  /// Between two, packets of more than 1000 bytes are lost, in one direction or both.
  void narrow(int one, int other, bool both) {
    parted_.emplace_back(one, other);
    network.narrow(one, other, 1000);
    if (both) network.narrow(other, one, 1000);
  }
  void divide(int first) {
    for (int one = 0; one < first; ++one)
      for (int other = first; other < network.size(); ++other) {
        part(one, other);
        network.cut(one, other);
        network.cut(other, one);
      }
  }
  /// What a rank has ended with.
  [[nodiscard]] CollectiveFailure failure_of(int rank) {
    try {
      if (at(rank).thrown()) std::rethrow_exception(at(rank).thrown());
    } catch (const CollectiveError& error) {
      return error.failure();
    }
    return {};
  }

  void run() {
    network.run_until(network.now() + 60s, [this] {
      return std::all_of(ranks_.begin(), ranks_.end(),
                         [](const auto& rank) { return rank->has_ended(); });
    });
  }

  /// What must not be; empty if all is well. `alike`: those that fail name the same; `several`:
  /// more than one thing has happened.
  [[nodiscard]] std::string fault(bool alike, bool several) {
    std::optional<std::pair<int, std::string>> named;
    for (const auto& rank : ranks_) {
      const std::string who = "rank " + std::to_string(rank->rank());
      if (gone_.count(rank->rank()) != 0) continue;
      if (!rank->has_ended()) return who + " waits for ever";
      if (!rank->thrown()) {
        if (wrong_[static_cast<std::size_t>(rank->rank())]) return who + " has wrong sums";
        continue;
      }
      try {
        std::rethrow_exception(rank->thrown());
      } catch (const CollectiveError& error) {
        const CollectiveFailure& failure = error.failure();
        if (blamed_.empty() && parted_.empty())
          return who + " has failed without a reason: " + error.what();
        if (several                    ? !has_trouble(failure)
            : failure.failed_rank >= 0 ? blamed_.count(failure.failed_rank) == 0
                                       : !names_parted(failure.reason))
          return who + " blames another one: " + error.what();
        // One without network names itself, in words of its own.
        const bool is_alone = isolated_.count(rank->rank()) != 0;
        const std::pair names(failure.failed_rank, is_alone ? std::string() : failure.reason);
        if (alike && named &&
            (names.first != named->first ||
             (!is_alone && !named->second.empty() && names != *named)))
          return who + " says: " + error.what() + "; another one: " + named->second;
        if (!is_alone || !named) named = names;
      } catch (const std::runtime_error& error) {
        if (gives_up_ != rank->rank()) return who + " has thrown: " + error.what();
      } catch (const SimulatedRank::Killed&) {
        return who + " was killed";
      }
    }
    return {};
  }

  SimulatedNetwork network;

 private:
  void blame(int rank) { blamed_.insert(rank); }
  /// With several troubles, which rank is to blame depends on what most ranks hear; but it must be
  /// one that has some trouble, or one that hears no other rank because all others have some.
  [[nodiscard]] bool has_trouble(const CollectiveFailure& failure) const {
    std::set<int> troubled = blamed_;
    for (const auto& [one, other] : parted_) troubled.insert({one, other});
    const bool have_all_others = static_cast<int>(troubled.size()) + 1 >= network.size();
    if (have_all_others && failure.reason.starts_with("hears none"))
      troubled.insert(failure.failed_rank);
    const auto is_meant = [&](int rank) {
      return failure.failed_rank >= 0
                 ? failure.failed_rank == rank
                 : failure.reason.find("worker " + std::to_string(rank) + " (") !=
                       failure.reason.npos;
    };
    return std::any_of(troubled.begin(), troubled.end(), is_meant);
  }
  /// Two have lost each other, though both are well: neither is to blame, unless no
  /// other rank hears both.
  void part(int one, int other) {
    parted_.emplace_back(one, other);
    if (network.size() > 2) return;
    blame(one);
    blame(other);
  }
  [[nodiscard]] bool names_parted(const std::string& reason) const {
    return std::any_of(parted_.begin(), parted_.end(), [&](const auto& two) {
      const auto name = [](int rank) { return "worker " + std::to_string(rank) + " ("; };
      return reason.find(name(two.first)) != reason.npos &&
             reason.find(name(two.second)) != reason.npos;
    });
  }

  void program(int rank) {
    SimulatedRank& self = at(rank);
    Ring<SimulatedTransport> ring(SimulatedTransport(self), options_);
    std::vector<float> values(length_);
    for (int step = 0; step < 3; ++step) {
      self.compute(network.random_time(0ms, 20ms));
      if (gives_up_ == rank) {
        ring.abort("no more", ExitCode::failure);
        throw std::runtime_error("no more");
      }
      for (std::size_t i = 0; i < length_; ++i) values[i] = value(rank, step, i);
      ring.all_reduce(std::span<float>(values), ReduceOp::sum);
      for (std::size_t i = 0; i < length_; ++i) {
        float sum = 0;
        for (int each = 0; each < network.size(); ++each) sum += value(each, step, i);
        if (values[i] != sum) wrong_[static_cast<std::size_t>(rank)] = 1;
      }
    }
    ring.barrier();
  }
  static float value(int rank, int step, std::size_t i) {
    return static_cast<float>((rank + 1) * static_cast<int>(i % 17) + step);
  }

  const std::vector<std::string> addresses_;
  CommunicationOptions options_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
  // With many ranks less, so that bad weather does not take longer than progress_timeout.
  std::size_t length_ = static_cast<std::size_t>(network.random(3) * network.random(700)) * 5 /
                        static_cast<std::size_t>(std::max(5, network.size()));
  std::vector<char> wrong_;  // by rank
  std::set<int> blamed_, gone_, isolated_;
  std::vector<std::pair<int, int>> parted_;
  int gives_up_ = -1;
};

/// Empty if all went well.
std::string work_with_trouble(std::uint64_t seed, int world) {
  const auto kind = static_cast<Trouble>(seed % kinds);
  Work work(world, seed);
  SimulatedNetwork& network = work.network;
  const std::uint64_t times = kind == Trouble::several ? 2 + network.random(3) : 1;
  for (std::uint64_t i = 0; i < times; ++i) {
    const auto one =
        kind == Trouble::several ? static_cast<Trouble>(network.random(kinds - 1)) : kind;
    network.after(network.random_time(0ms, 100ms), [&work, one] { work.suffer(one); });
  }
  work.run();
  // Two that have lost each other cannot agree, nor can the parts of a network that is cut twice.
  const bool can_agree =
      kind != Trouble::several && (world > 2 || kind == Trouble::kill || kind == Trouble::gives_up);
  return work.fault(can_agree, kind == Trouble::several);
}

/// All others name it, in time.
std::string die_among_many(std::uint64_t seed) {
  Work work(64, seed);
  const auto killed = work.network.random_time(1ms, 30ms);
  work.network.after(killed, [&work] { work.suffer(Trouble::kill); });
  const auto begin = work.network.now() + killed;
  work.run();
  if (auto fault = work.fault(true, false); !fault.empty()) return fault;
  for (int rank = 0; rank < 64; ++rank)
    if (work.at(rank).thrown() && work.at(rank).end() - begin > 1s)
      return "rank " + std::to_string(rank) + " knows it late";
  return {};
}

/// The partners of a rank are killed within a moment: it is left alone.
std::string die_around_one(std::uint64_t seed) {
  const int world = 12 + static_cast<int>(seed % 10);
  Work work(world, seed);
  SimulatedNetwork& network = work.network;
  const int alone = network.random_host();
  const auto begin = network.random_time(1ms, 30ms);
  const auto partners = detail::partners_of(alone, world);
  for (const int partner : partners)
    network.after(begin + network.random_time(0ms, seed % 2 == 0 ? 0ms : 3ms),
                  [&work, partner] { work.kill(partner); });
  work.run();
  if (auto fault = work.fault(false, true); !fault.empty()) return fault;
  const CollectiveFailure failure = work.failure_of(alone);
  if (seed % 2 != 0) return {};  // the first one may be named before the others are dead
  for (const int partner : partners)
    if (failure.failed_rank != partner &&
        failure.reason.find("worker " + std::to_string(partner) + " (") == failure.reason.npos)
      return "the one that is left does not name rank " + std::to_string(partner) + ": " +
             failure.reason;
  return {};
}

/// No way leads any more from the lower ranks to the others, nor back.
std::string fall_apart(std::uint64_t seed) {
  const int world = 9 + static_cast<int>(seed % 12);
  Work work(world, seed);
  const int first =
      1 + static_cast<int>(work.network.random(static_cast<std::uint64_t>(world - 1)));
  work.network.after(work.network.random_time(0ms, 30ms), [&work, first] { work.divide(first); });
  work.run();
  return work.fault(false, true);
}

/// Large packets are lost: on one way, on those of one host, or on all.
std::string lose_large_packets(std::uint64_t seed) {
  const int world = 2 + static_cast<int>(seed / 2 % 4);
  Work work(world, 105 * seed + 1, 20'000);  // a network of large packets, and large packs
  const int host = work.network.random_host();
  const std::uint64_t kind = work.network.random(3);
  if (kind == 0) work.narrow(host, (host + 1) % world, seed % 2 != 1);
  for (int one = 0; one < world && kind > 0; ++one)
    for (int other = one + 1; other < world; ++other)
      if (kind == 2 || one == host || other == host) work.narrow(one, other, true);
  work.run();
  if (auto fault = work.fault(kind == 0 && world > 2, false); !fault.empty()) return fault;
  for (int rank = 0; rank < world; ++rank) {
    const CollectiveFailure failure = work.failure_of(rank);
    if (failure.failed_rank >= 0 ||
        failure.reason.find("loses large packets") == failure.reason.npos)
      return "worker " + std::to_string(rank) + " says: " + failure.reason;
  }
  return {};
}

}  // namespace

TEST_SUITE("simulated work") {
  TEST_CASE(
      "whatever fails, each rank has the right sums or names what failed, and all name the same") {
    const auto few = [](std::uint64_t seed) {
      return work_with_trouble(seed, 2 + static_cast<int>(seed / kinds % 4));
    };
    try_schedules(few, 400, {3990});
  }
  TEST_CASE("the same where not all are connected with all") {
    const auto many = [](std::uint64_t seed) {
      return work_with_trouble(seed, 9 + static_cast<int>(seed / kinds % 12));
    };
    try_schedules(many, 120, {});
  }
  TEST_CASE("the death of one of 64 is known to all within a second") {
    try_schedules(die_among_many, 3, {});
  }
  TEST_CASE("a rank whose partners all die names them, and so do all others") {
    try_schedules(die_around_one, 40, {});
  }
  TEST_CASE("a network that loses large packets is named, and no worker is blamed") {
    try_schedules(lose_large_packets, 40, {});
  }
  TEST_CASE("a network that falls into two: each part names ranks of the other one") {
    try_schedules(fall_apart, 40, {});
  }
  TEST_CASE("a schedule is the same when it is run again") {
    for (const std::uint64_t seed : {3u, 16u}) {
      Work one(4, seed), other(4, seed);
      for (Work* work : {&one, &other}) {
        work->network.after(30ms, [work] { work->suffer(Trouble::kill); });
        work->run();
      }
      CHECK(one.network.now() == other.network.now());
      CHECK(one.network.random(1 << 30) == other.network.random(1 << 30));
    }
  }
}
