#include "lockstep/collectives/policies/shared_memory.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/host/shared_segment.hpp"
#include "support/process.hpp"
#include "support/skip.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// Ranks that are on the hosts named, whatever machine this is: f(ring) on each. Returns what each
/// has thrown.
template <class F>
std::vector<std::exception_ptr> run_on_hosts(const std::vector<std::string>& hosts,
                                             int expected_pairs, int expected_together,
                                             const CommunicationOptions& options, F f) {
  const int size = static_cast<int>(hosts.size());
  LocalCluster cluster(size);
  std::vector<Rendezvous> places = cluster.places();
  std::vector<int> pairs(hosts.size()), together(hosts.size());
  auto thrown = run_threads(size, [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    Tcp tcp = Tcp::connect(places[i], options);
    const detail::NeighbourPipes pipes = detail::open_neighbour_pipes(tcp, hosts[i]);
    pairs[i] = pipes.pairs;
    together[i] = pipes.together;
    Ring<Tcp> ring(std::move(tcp), options, pipes.together);
    f(ring);
    ring.close();
  });
  CHECK(pairs == std::vector<int>(hosts.size(), expected_pairs));
  CHECK(together == std::vector<int>(hosts.size(), expected_together));
  return thrown;
}

struct Lineup {
  std::vector<std::string> hosts;
  int pairs;
  int together;
};
const std::vector<Lineup> lineups{
    {{"a", "b"}, 0, 1},           {{"a", "a"}, 1, 2},           {{"a", "a", "b"}, 1, 2},
    {{"a", "b", "a"}, 1, 2},      {{"a", "a", "a"}, 3, 3},      {{"a", "a", "b", "b"}, 2, 2},
    {{"a", "b", "a", "b"}, 0, 1}, {{"a", "b", "b", "b"}, 2, 3},
};

}  // namespace

TEST_SUITE("pipes on a host") {
  TEST_CASE("wherever the ranks run, all operations give the same bits") {
    const std::size_t count = 4 * block_elements + 4099;
    for (const Lineup& lineup : lineups)
      for (const int connections : {1, 3}) {
        const int size = static_cast<int>(lineup.hosts.size());
        CAPTURE(size);
        std::vector<std::vector<float>> inputs;
        for (int rank = 0; rank < size; ++rank)
          inputs.push_back(random_numbers<float>(rank, count));
        const auto expected = contract_sum(inputs);
        std::vector<char> equal(lineup.hosts.size());
        CommunicationOptions options = patient_options();
        options.connections = connections;
        const auto work = [&](Ring<Tcp>& ring) {
          const auto rank = static_cast<std::size_t>(ring.rank());
          bool good = true;
          for (int step = 0; step < 3; ++step) {
            auto values = inputs[rank];
            std::vector<double> status(5, 1);
            ring.all_reduce(std::span(status), std::span(values));
            good = good &&
                   std::memcmp(values.data(), expected.data(), count * sizeof(float)) == 0 &&
                   status == std::vector<double>(5, size);
            std::vector<float> few(7, 1);
            ring.all_reduce(std::span(few));
            // Gathered where each has a host of its own, and sent round the ring elsewhere.
            std::vector<float> some(inputs[rank].begin(), inputs[rank].begin() + 5000);
            ring.all_reduce(std::span(some));
            good = good && std::memcmp(some.data(), expected.data(), 5000 * sizeof(float)) == 0;
            ring.barrier();
            std::vector<std::byte> bytes(700'001, std::byte(rank == 1 ? 9 : 0)),
                all(3 * lineup.hosts.size());
            ring.broadcast(std::span(bytes), 1);
            const std::vector<std::byte> mine(3, std::byte(rank));
            ring.all_gather(std::span(mine), std::span(all));
            good = good && few[6] == static_cast<float>(size) && bytes.back() == std::byte(9);
            for (std::size_t i = 0; i < all.size(); ++i) good = good && all[i] == std::byte(i / 3);
          }
          equal[rank] = good;
        };
        rethrow_first(run_on_hosts(lineup.hosts, lineup.pairs, lineup.together, options, work));
        CHECK(equal == std::vector<char>(lineup.hosts.size(), 1));
      }
  }

  TEST_CASE("messages that no ring holds go both ways at once") {
    rethrow_first(run_on_hosts({"a", "a"}, 1, 2, patient_options(), [](Ring<Tcp>& ring) {
      std::vector<std::byte> out(30'000'000, static_cast<std::byte>(ring.rank() + 1)),
          in(30'000'000);
      SpanFlow flow(out, in);
      ring.transport().begin(Operation::none);
      ring.transport().transfer(1 - ring.rank(), 1 - ring.rank(), flow);
      if (in != std::vector<std::byte>(in.size(), static_cast<std::byte>(2 - ring.rank())))
        throw Error("wrong bytes");
    }));
  }

  TEST_CASE("one way, with frames that fit into the ring in part") {
    constexpr std::size_t capacity = detail::PipeMemory::capacity;
    std::vector<std::size_t> wrong;
    rethrow_first(run_on_hosts({"a", "a"}, 1, 2, patient_options(), [&](Ring<Tcp>& ring) {
      ring.transport().begin(Operation::none);
      for (int round = 0; round < 30; ++round)
        for (const std::size_t length :
             {capacity - 21, std::size_t{100}, capacity - 17, std::size_t{1}, capacity - 31}) {
          std::vector<std::byte> bytes(length);
          const auto content = [&](std::size_t i) {
            return static_cast<std::byte>(i * 7 + i / 256 + length);
          };
          if (ring.rank() == 0) {
            for (std::size_t i = 0; i < length; ++i) bytes[i] = content(i);
            SpanFlow flow(bytes, {});
            ring.transport().transfer(1, 1, flow);
          } else {
            SpanFlow flow({}, bytes);
            ring.transport().transfer(0, 0, flow);
            std::size_t i = 0;
            while (i < length && bytes[i] == content(i)) ++i;
            if (i < length) wrong.push_back(length);
          }
        }
    }));
    CHECK(wrong.empty());
  }

  TEST_CASE("what a rank has sent is what arrives, also when it has failed since") {
    std::vector<std::byte> in(600'000);
    std::atomic<bool> receives = false, sent = false;
    const auto wait_for = [](const std::atomic<bool>& flag) {
      for (int i = 0; i < 6000 && !flag; ++i) std::this_thread::sleep_for(10ms);
    };
    const auto thrown = run_on_hosts({"a", "a"}, 1, 2, patient_options(), [&](Ring<Tcp>& ring) {
      ring.transport().begin(Operation::none);
      if (ring.rank() == 0) {
        const std::vector<std::byte> out(in.size(), std::byte{7});
        wait_for(receives);  // it has done with sharing the pipes
        SpanFlow flow(out, {});
        ring.transport().transfer(1, 1, flow);
        sent = true;
        throw Error("the disk is full");
      }
      receives = true;
      wait_for(sent);
      SpanFlow flow({}, in);
      ring.transport().transfer(0, 0, flow);
      ring.barrier();
    });
    CHECK(in == std::vector<std::byte>(in.size(), std::byte{7}));
    CHECK(failure_of(thrown[1]).failed_rank == 0);
  }

  TEST_CASE("a half-precision wire rounds the same, and short arrays nowhere") {
    for (const std::size_t count : {std::size_t{5'000}, std::size_t{500'000}}) {
      std::vector<std::vector<float>> results;
      for (const Lineup& lineup : {Lineup{{"a", "a", "b"}, 1, 2}, Lineup{{"a", "b", "c"}, 0, 1}}) {
        CommunicationOptions options = patient_options();
        options.wire = Wire::bfloat16;
        std::vector<float> result;
        const auto work = [&](Ring<Tcp>& ring) {
          auto values = random_numbers<float>(ring.rank(), count);
          std::vector<double> status(3);
          ring.all_reduce(std::span(status), std::span(values));
          if (ring.rank() == 2) result = values;
        };
        rethrow_first(run_on_hosts(lineup.hosts, lineup.pairs, lineup.together, options, work));
        results.push_back(result);
      }
      CHECK(results[0] == results[1]);
    }
  }

  TEST_CASE("ranks that are out of step notice before they sum anything") {
    const auto thrown = run_on_hosts({"a", "a"}, 1, 2, patient_options(), [](Ring<Tcp>& ring) {
      std::vector<float> values(ring.rank() == 1 ? 500'001 : 500'000);
      ring.all_reduce(std::span(values));
    });
    for (const auto& exception : thrown)
      CHECK(failure_of(exception).reason.find("is out of step: worker ") != std::string::npos);
  }

  void check_lost(int signal, const CommunicationOptions& options, std::size_t count,
                  const char* reason) {
    LocalCluster cluster(4);
    std::vector<Rendezvous> places = cluster.places();
    std::atomic<int> working = 0;
    const auto keep_reducing = [&](int rank, const CommunicationOptions& own) {
      struct Leaving {
        std::atomic<int>& working;
        ~Leaving() { working = 3; }  // whatever happens, the signal is sent
      } const leaving{working};
      Tcp tcp = Tcp::connect(places[static_cast<std::size_t>(rank)], own);
      const int together = detail::open_neighbour_pipes(tcp, rank < 2 ? "a" : "b").together;
      Ring<Tcp> ring(std::move(tcp), own, together);
      std::vector<float> values(count);
      ring.all_reduce(std::span(values));
      for (++working;;) ring.all_reduce(std::span(values));
    };
    const pid_t victim = ::fork();
    REQUIRE(victim >= 0);
    if (victim == 0) {
      try {
        keep_reducing(3, patient_options());
      } catch (...) {
      }
      ::_exit(0);
    }
    ::close(places[3].listen_socket);
    std::chrono::steady_clock::time_point begin;
    const auto thrown = run_threads(4, [&](int rank) {
      if (rank < 3) return keep_reducing(rank, options);
      while (working < 3) std::this_thread::sleep_for(5ms);
      begin = std::chrono::steady_clock::now();
      ::kill(victim, signal);
    });
    CHECK(std::chrono::steady_clock::now() - begin < 20s);
    ::kill(victim, SIGKILL);
    ::waitpid(victim, nullptr, 0);
    for (const std::size_t rank : {0u, 1u, 2u}) {
      CAPTURE(message_of(thrown[rank]));
      CHECK(failure_of(thrown[rank]).failed_rank == 3);
      CHECK(failure_of(thrown[rank]).reason.find(reason) != std::string::npos);
      CHECK(failure_of(thrown[rank]).code == ExitCode::lost_peer);
    }
  }

  TEST_CASE("a neighbour that is killed is named by all, at once") {
    for (const std::size_t count : {std::size_t{100}, std::size_t{1'000'000}})
      check_lost(SIGKILL, patient_options(), count, "");
  }

  TEST_CASE("a neighbour that hangs is named by all when the time is over") {
    check_lost(SIGSTOP, {.timeout = 2s, .startup_timeout = 60s}, 1'000'000, "was silent for");
  }
}

// Processes that see each other only in pairs.
constexpr const char* two_pairs = R"sh(
pair() {
  unshare --pid --fork --mount-proc sh -c '
    program=$0 first=$1 second=$2
    shift 2
    "$program" "$first" 60000 60000 auto "$@" & first=$!
    "$program" "$second" 60000 60000 auto "$@" & second=$!
    wait $first && wait $second' "$@"
}
program=$0
pair "$program" 0 1 "$@" & first=$!
pair "$program" 2 3 "$@" & second=$!
wait $first && wait $second
)sh";

TEST_SUITE("pipes on a host [full] [needs namespaces]") {
  TEST_CASE("Auto, where two and two processes can share memory") {
    const Finished may = run_process({"/bin/sh", "-c", "unshare --pid --fork --mount-proc true"});
    if (may.exit_code != 0)
      return skip("two and two processes", "the right to make process namespaces: " + may.output);
    std::vector<std::string> command{"/bin/sh", "-c", two_pairs, test_program("collectives_rank")};
    for (const std::string& address : free_addresses(4)) command.push_back(address);
    const Finished finished = run_process(command, {}, 60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(finished.output.find(
              "workers communicate over TCP, and neighbours on a host in shared memory: worker ") !=
          std::string::npos);
  }
}
