// More ranks than are all connected with each other: processes that work, are killed, and end.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/protocol/partners.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

constexpr int most_ranks = 32;

/// What each rank tells the test, in memory that all processes have.
struct Notes {
  std::atomic<int> working;
  std::atomic<bool> stop;
  struct Rank {
    std::atomic<bool> has_ended;
    int failed;  ///< -2: no failure
    char reason[1500];
  } ranks[most_ranks];
};

/// Ranks, each a process, which reduce until they fail, or until they are told to stop.
template <class Policy>
class Processes {
 public:
  explicit Processes(int size, const CommunicationOptions& options = patient_options())
      : cluster_(size) {
    void* const memory =
        ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    notes_ = new (memory) Notes{};
    std::vector<Rendezvous> places = cluster_.places();
    for (int rank = 0; rank < size; ++rank) {
      notes_->ranks[rank].failed = -2;
      const pid_t process = ::fork();
      REQUIRE(process >= 0);
      if (process == 0) {
        for (const Rendezvous& place : places)  // whose ports must end with their processes
          if (place.rank != rank) ::close(place.listen_socket);
        live(places[static_cast<std::size_t>(rank)], options);
      }
      processes_.push_back(process);
    }
    for (const Rendezvous& place : places) ::close(place.listen_socket);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes() {
    for (const pid_t process : processes_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
    ::munmap(notes_, sizeof(Notes));
  }

  [[nodiscard]] int size() const { return static_cast<int>(processes_.size()); }
  [[nodiscard]] const std::string& address(int rank) const {
    return cluster_.addresses[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const typename Notes::Rank& of(int rank) const { return notes_->ranks[rank]; }
  void kill(int rank, int signal = SIGKILL) {
    ::kill(processes_[static_cast<std::size_t>(rank)], signal);
  }
  void stop() { notes_->stop = true; }
  [[nodiscard]] bool wait_until_all_work() const {
    return wait([this] { return notes_->working == size(); });
  }
  /// Until all but these have ended.
  [[nodiscard]] bool wait_for_end(const std::vector<int>& but = {}) const {
    return wait([&] {
      for (int rank = 0; rank < size(); ++rank)
        if (std::find(but.begin(), but.end(), rank) == but.end() && !of(rank).has_ended)
          return false;
      return true;
    });
  }

 private:
  template <class Condition>
  static bool wait(Condition condition) {
    for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    return condition();
  }

  [[noreturn]] void live(const Rendezvous& place, const CommunicationOptions& options) {
    typename Notes::Rank& note = notes_->ranks[place.rank];
    try {
      auto collective = Policy::connect(place, options);
      std::vector<float> values(100);
      collective.barrier();
      ++notes_->working;
      for (float goes_on = 1; goes_on > 0;) {
        collective.all_reduce(std::span(values));
        std::vector<float> stops(1, notes_->stop ? 1.0f : 0.0f);
        collective.all_reduce(std::span(stops));
        goes_on = stops[0] > 0 ? 0.0f : 1.0f;
      }
      collective.close();
    } catch (const CollectiveError& error) {
      note.failed = error.failed_rank();
      error.failure().reason.copy(note.reason, sizeof note.reason - 1);
    } catch (const std::exception& error) {
      note.failed = -3;
      std::string(error.what()).copy(note.reason, sizeof note.reason - 1);
    }
    note.has_ended = true;
    ::_exit(0);
  }

  LocalCluster cluster_;
  Notes* notes_;
  std::vector<pid_t> processes_;
};

}  // namespace

TEST_SUITE("many ranks") {
  TEST_CASE_TEMPLATE("they work and end in order", Policy, Ring<Tcp>, SharedMemory) {
    Processes<Policy> ranks(12);
    REQUIRE(ranks.wait_until_all_work());
    ranks.stop();
    REQUIRE(ranks.wait_for_end());
    for (int rank = 0; rank < 12; ++rank) {
      CAPTURE(std::string(ranks.of(rank).reason));
      CHECK(ranks.of(rank).failed == -2);
    }
  }

  TEST_CASE_TEMPLATE("a rank that is killed is named by all, with the same words", Policy,
                     Ring<Tcp>, SharedMemory) {
    for (const int victim : {0, 3, 11}) {
      CAPTURE(victim);
      Processes<Policy> ranks(12);
      REQUIRE(ranks.wait_until_all_work());
      std::this_thread::sleep_for(20ms);
      ranks.kill(victim);
      REQUIRE(ranks.wait_for_end({victim}));
      const std::string reason = ranks.of(victim == 0 ? 1 : 0).reason;
      CHECK(reason.find("its process has ended") != reason.npos);
      for (int rank = 0; rank < 12; ++rank) {
        if (rank == victim) continue;
        CAPTURE(rank);
        CHECK(ranks.of(rank).failed == victim);
        CHECK(ranks.of(rank).reason == reason);
      }
    }
  }

  TEST_CASE_TEMPLATE("a rank that hangs is named by all when the time is over", Policy, Ring<Tcp>,
                     SharedMemory) {
    Processes<Policy> ranks(12, {.timeout = 2s, .startup_timeout = 60s});
    REQUIRE(ranks.wait_until_all_work());
    ranks.kill(7, SIGSTOP);
    REQUIRE(ranks.wait_for_end({7}));
    for (int rank = 0; rank < 12; ++rank)
      if (rank != 7) {
        CAPTURE(rank);
        CHECK(ranks.of(rank).failed == 7);
        CHECK(ranks.of(rank).reason == std::string("was silent for more than 2000 ms "
                                                   "(CommunicationOptions::timeout)"));
      }
  }

  TEST_CASE("a rank whose partners are all killed names one of them, and ends") {
    constexpr int alone = 6;
    Processes<Ring<Tcp>> ranks(12);
    REQUIRE(ranks.wait_until_all_work());
    const std::vector<int> partners = detail::partners_of(alone, ranks.size());
    for (const int partner : partners) ranks.kill(partner);
    REQUIRE(ranks.wait_for_end(partners));
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (std::find(partners.begin(), partners.end(), rank) != partners.end()) continue;
      CAPTURE(rank);
      CAPTURE(std::string(ranks.of(rank).reason));
      CHECK(std::find(partners.begin(), partners.end(), ranks.of(rank).failed) != partners.end());
    }
  }
}
