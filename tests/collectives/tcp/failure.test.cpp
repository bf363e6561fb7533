// Processes that are killed or stopped, in every role and operation, whatever the ranks communicate
// by.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "collectives/harness.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

enum class Work { long_reduction, short_reduction, barrier, broadcast, reduction_by_shares };

template <class C>
constexpr bool shares_memory = std::is_same_v<C, SharedMemory>;

template <class C>
[[noreturn]] void keep_working(C& collective, Work work) {
  const std::size_t count =
      work == Work::long_reduction || work == Work::reduction_by_shares ? 1'000'000 : 100;
  Buffer memory(count * sizeof(float));
  if constexpr (requires { collective.allocate(count); })
    memory = collective.allocate(count * sizeof(float));
  const std::span values(reinterpret_cast<float*>(memory.data()), count);
  if constexpr (shares_memory<C>)
    while (work == Work::reduction_by_shares)
      collective.reduce_scatter_all_gather(
          std::span<double>{}, values,
          [](auto, auto, std::span<const float> sums, std::span<float> results) {
            std::copy(sums.begin(), sums.end(), results.begin());
          });
  for (;;) {
    if (work == Work::barrier)
      collective.barrier();
    else if (work == Work::broadcast)
      collective.broadcast(std::as_writable_bytes(values), 0);
    else
      collective.all_reduce(values);
  }
}

/// Three ranks work; `victim`, a process, gets the signal. Checks how the two others, threads here,
/// fail.
template <class Policy>
void check_failure(int signal, int victim, Work work, const CommunicationOptions& options) {
  if (work == Work::reduction_by_shares && !shares_memory<Policy>) return;
  CAPTURE(signal);
  CAPTURE(victim);
  CAPTURE(static_cast<int>(work));
  LocalCluster cluster(3);
  std::vector<Rendezvous> places = cluster.places();
  const Rendezvous& place = places[static_cast<std::size_t>(victim)];
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    try {
      CommunicationOptions patient = patient_options();
      patient.connections = options.connections;
      auto collective = Policy::connect(place, patient);
      keep_working(collective, work);
    } catch (...) {
    }
    ::_exit(1);
  }
  ::close(place.listen_socket);
  std::atomic<int> working = 0;
  std::chrono::steady_clock::time_point signalled;
  const auto thrown = run_threads(3, [&](int rank) {
    if (rank == victim) {
      while (working < 2) std::this_thread::sleep_for(10ms);
      std::this_thread::sleep_for(50ms);
      signalled = std::chrono::steady_clock::now();
      ::kill(process, signal);
      return;
    }
    struct Leaving {
      std::atomic<int>& working;
      ~Leaving() { working = 2; }  // whatever happens, the signal is sent
    } const leaving{working};
    auto collective = Policy::connect(places[static_cast<std::size_t>(rank)], options);
    ++working;
    keep_working(collective, work);
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - signalled).count();
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);

  CHECK(seconds < 15);
  std::string reason;
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    try {
      REQUIRE(thrown[static_cast<std::size_t>(rank)]);
      std::rethrow_exception(thrown[static_cast<std::size_t>(rank)]);
    } catch (const CollectiveError& error) {
      CAPTURE(std::string(error.what()));
      CHECK(error.failed_rank() == victim);
      CHECK(error.failure().address == place.addresses[static_cast<std::size_t>(victim)]);
      CHECK(error.exit_code() == ExitCode::lost_peer);
      if (reason.empty()) reason = error.failure().reason;
      CHECK(error.failure().reason == reason);  // the cause is the same everywhere
      if (signal == SIGSTOP) CHECK(reason.find("its process has ended") == std::string::npos);
    }
  }
}

constexpr Work all_work[] = {Work::long_reduction, Work::short_reduction, Work::barrier,
                             Work::broadcast, Work::reduction_by_shares};

}  // namespace

TEST_SUITE("failure") {
  TEST_CASE_TEMPLATE("a rank that is killed is named by all, at once", Policy, Ring<Tcp>,
                     SharedMemory) {
    for (const int victim : {0, 1, 2})
      for (const Work work : all_work)
        check_failure<Policy>(SIGKILL, victim, work, patient_options());
  }

  TEST_CASE("also when there are several connections for data") {
    CommunicationOptions options = patient_options();
    options.connections = 4;
    for (const int victim : {0, 1, 2})
      check_failure<Ring<Tcp>>(SIGKILL, victim, Work::long_reduction, options);
  }
}

TEST_SUITE("failure [full]") {
  TEST_CASE_TEMPLATE("a rank that hangs is named by all when the time is over", Policy, Ring<Tcp>,
                     SharedMemory) {
    for (const int victim : {0, 1, 2})
      for (const Work work : all_work)
        check_failure<Policy>(SIGSTOP, victim, work, {.timeout = 2s, .startup_timeout = 60s});
  }

  TEST_CASE_TEMPLATE("a rank that waits for five seconds says for which one", Policy, Ring<Tcp>,
                     SharedMemory) {
    const lockstep_test::TemporaryFolder folder;
    LocalCluster cluster(3);
    std::vector<Rendezvous> places = cluster.places();
    std::vector<pid_t> processes;
    for (int rank = 0; rank < 3; ++rank) {
      processes.push_back(::fork());
      REQUIRE(processes.back() >= 0);
      if (processes.back() != 0) continue;
      int code = 0;
      try {
        (void)!std::freopen(folder.path(std::to_string(rank)).c_str(), "w", stderr);
        auto collective = Policy::connect(places[static_cast<std::size_t>(rank)],
                                          {.timeout = 10s, .startup_timeout = 60s});
        if (rank == 2) ::kill(::getpid(), SIGSTOP);
        keep_working(collective, Work::long_reduction);
      } catch (const Error& error) {
        code = static_cast<int>(error.exit_code());
      }
      std::fflush(nullptr);
      ::_exit(code);
    }
    for (const std::size_t rank : {0u, 1u}) {
      int status = 0;
      ::waitpid(processes[rank], &status, 0);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::lost_peer));
    }
    ::kill(processes[2], SIGKILL);
    ::waitpid(processes[2], nullptr, 0);
    std::string said;
    for (const char* rank : {"0", "1"}) {
      std::ifstream file(folder.path(rank));
      said.append(std::istreambuf_iterator<char>(file), {});
    }
    CHECK(said.find("in all_reduce has waited 5 s for worker 2") != std::string::npos);
    CHECK(said.find("s for worker 0") == std::string::npos);  // not for one that waits itself
    CHECK(said.find("s for worker 1") == std::string::npos);
  }
}
