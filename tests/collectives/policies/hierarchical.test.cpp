#include "lockstep/collectives/policies/hierarchical.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

TEST_SUITE("hierarchical") {
  TEST_CASE("processes with different numbers of replicas are refused, by name") {
    InProcessGroup outer(2);
    const auto thrown = run_threads(2, [&](int worker) {
      HierarchicalGroup(worker + 1, any_collective(outer.member(worker)).get());
    });
    CHECK(message_of(thrown[0]) ==
          "all workers must have the same number of replicas: that of rank 1 has 2, that of rank 0 "
          "has 1");
    CHECK(message_of(thrown[1]) ==
          "all workers must have the same number of replicas: that of rank 0 has 1, that of rank 1 "
          "has 2");
  }

  TEST_CASE("ranks count worker by worker; alone, the threads are all") {
    HierarchicalGroup alone(3, nullptr);
    CHECK(alone.member(2).rank() == 2);
    CHECK(alone.member(2).size() == 3);
    rethrow_first(run_threads(3, [&](int rank) {
      std::vector<float> values(5, 1.0f);
      alone.member(rank).all_reduce(std::span(values));
      if (values != std::vector<float>(5, 3.0f)) throw Error("sum");
    }));
  }

  TEST_CASE(
      "a failure between processes reaches every thread, with the name that it has between them") {
    InProcessGroup outer(2, {.timeout = 1s, .progress_timeout = 1s});
    std::vector<std::string> heard(2);
    rethrow_first(run_threads(2, [&](int worker) {
      const auto collective = any_collective(outer.member(worker));
      HierarchicalGroup group(2, collective.get());
      if (worker == 1) return;  // never comes
      const auto thrown = run_threads(2, [&](int rank) { group.member(rank).barrier(); });
      heard = {message_of(thrown[0]), message_of(thrown[1])};
    }));
    for (const std::string& message : heard)
      CHECK(message.starts_with("barrier: replica 1 failed: "));
  }

  TEST_CASE_TEMPLATE("a worker of several replicas that is killed has one name on all replicas",
                     Policy, Ring<Tcp>, SharedMemory, Auto) {
    for (const std::vector<int>& numbers :
         {std::vector<int>{}, {0, 4, 7}}) {  // in an elastic world
      LocalCluster cluster(3);
      std::vector<Rendezvous> places = cluster.places();
      const auto work = [&](int worker, auto each, std::vector<std::exception_ptr>& thrown) {
        Rendezvous& place = places[static_cast<std::size_t>(worker)];
        place.workers = numbers;
        const auto outer = any_collective(Policy::connect(place, patient_options()));
        HierarchicalGroup group(2, outer.get(), patient_options());
        thrown = run_threads(2, [&](int replica) {
          Hierarchical member = group.member(replica);
          for (int i = 0;; ++i) {
            member.barrier();
            each(replica, i);
          }
        });
      };
      const pid_t process = ::fork();
      REQUIRE(process >= 0);
      std::vector<std::vector<std::exception_ptr>> thrown(3);
      if (process == 0) {
        const auto die = [](int replica, int i) {
          if (replica == 1 && i == 3) ::raise(SIGKILL);
        };
        work(1, die, thrown[1]);
        ::_exit(1);
      }
      ::close(places[1].listen_socket);
      rethrow_first(run_threads(3, [&](int worker) {
        if (worker != 1)
          work(
              worker, [](int, int) {}, thrown[static_cast<std::size_t>(worker)]);
      }));
      ::waitpid(process, nullptr, 0);
      const std::string name = "worker " + std::to_string(numbers.empty() ? 1 : 4);
      for (const std::size_t worker : {0u, 2u})
        for (const std::exception_ptr& exception : thrown[worker]) {
          CAPTURE(message_of(exception));
          CHECK(message_of(exception).starts_with("barrier: " + name + " (" + cluster.addresses[1] +
                                                  ") failed: "));
          CHECK(failure_of(exception).failed_rank == 1);
        }
    }
  }

  TEST_CASE("a replica that does not come is named with its worker on it, the worker on others") {
    LocalCluster cluster(2);
    std::vector<Rendezvous> places = cluster.places();
    std::vector<std::string> heard(2);
    rethrow_first(run_threads(2, [&](int worker) {
      Rendezvous& place = places[static_cast<std::size_t>(worker)];
      place.workers = {3, 5};
      const auto outer = any_collective(Ring<Tcp>::connect(place, patient_options()));
      CommunicationOptions options = patient_options();
      if (worker == 1) options.timeout = options.progress_timeout = 50ms;
      HierarchicalGroup group(2, outer.get(), options, 0,
                              place.workers[static_cast<std::size_t>(worker)]);
      const auto thrown = run_threads(2, [&](int replica) {
        if (worker == 1 && replica == 1) return;
        group.member(replica).barrier();
      });
      heard[static_cast<std::size_t>(worker)] = message_of(thrown[0]);
      if (worker == 1) outer->abort("replica 1 did not come");
    }));
    CHECK(heard[1].starts_with(
        "barrier: worker 5, replica 1 failed: this replica's thread did not come to barrier"));
    CHECK(heard[0].starts_with("barrier: worker 5 (" + cluster.addresses[1] +
                               ") failed: replica 1 did not come"));
  }

  TEST_CASE("threads wait for the first one as long as it is outside") {
    InProcessGroup outer(2, {.timeout = 10s});
    rethrow_first(run_threads(2, [&](int worker) {
      const auto collective = any_collective(outer.member(worker));
      HierarchicalGroup group(2, collective.get(), {.timeout = 700ms, .progress_timeout = 700ms});
      if (worker == 1) std::this_thread::sleep_for(1500ms);
      rethrow_first(run_threads(2, [&](int rank) {
        Hierarchical member = group.member(rank);
        member.barrier();
        // Also on the worker of the root, which is done early, and waits in the next operation.
        std::vector<std::byte> bytes(10);
        if (worker == 1) std::this_thread::sleep_for(1500ms);
        member.broadcast(bytes, 0);
        member.broadcast(bytes, 2);
        member.barrier();
      }));
    }));
  }

  TEST_CASE_TEMPLATE("all_reduce_async gives the sums of all_reduce, while other operations block",
                     Family, HierarchicalFamily<InProcessFamily>, HierarchicalFamily<TcpFamily>,
                     HierarchicalFamily<SharedMemoryFamily>) {
    for (const int size : {1, 2, 3, 4}) {
      CAPTURE(size);
      const std::size_t range = 4 * block_elements * static_cast<std::size_t>(size);
      const std::size_t count = 2 * range + 1009;
      Family::run(size, [&](auto& collective) {
        auto expected = random_numbers<float>(collective.rank(), count);
        auto values = expected;
        std::vector<double> status{1, 2};
        collective.all_reduce(std::span(status), std::span(expected));
        for (int round = 0; round < 2; ++round) {
          values = random_numbers<float>(collective.rank(), count);
          const std::span<float> all(values);
          collective.all_reduce_async(all.first(range));
          std::vector<double> between{1};
          collective.all_reduce(std::span(between));  // as a synchronised BatchNormalization does
          collective.all_reduce_async(all.subspan(range, range));
          collective.all_reduce(std::span(status), all.subspan(2 * range));
          collective.wait();
          if (between[0] != size) throw Error("an operation between");
          if (std::memcmp(values.data(), expected.data(), count * sizeof(float)) != 0)
            throw Error("other bits");
        }
      });
    }
  }

  TEST_CASE(
      "what fails in an operation that was begun is thrown by the next one, on every thread") {
    for (const bool waits : {true, false}) {
      CAPTURE(waits);
      InProcessGroup outer(2, {.timeout = 500ms, .progress_timeout = 500ms});
      std::vector<std::string> heard(2);
      rethrow_first(run_threads(2, [&](int worker) {
        const auto collective = any_collective(outer.member(worker));
        HierarchicalGroup group(2, collective.get());
        if (worker == 1) return;  // never comes
        std::vector<std::vector<float>> values(2, std::vector<float>(100));
        const auto thrown = run_threads(2, [&](int rank) {
          Hierarchical member = group.member(rank);
          member.all_reduce_async(std::span(values[static_cast<std::size_t>(rank)]));
          waits ? member.wait() : member.barrier();
        });
        heard = {message_of(thrown[0]), message_of(thrown[1])};
      }));
      for (const std::string& message : heard)
        CHECK(message.starts_with("all_reduce: replica 1 failed: "));
    }
  }

  TEST_CASE("drain ends with nothing under way, soon after an abort") {
    InProcessGroup outer(2, {.timeout = 60s});
    rethrow_first(run_threads(2, [&](int worker) {
      const auto collective = any_collective(outer.member(worker));
      HierarchicalGroup group(1, collective.get());
      if (worker == 1) return;
      const auto begin = std::chrono::steady_clock::now();
      std::vector<float> values(100);
      group.member(0).all_reduce_async(std::span(values));
      group.member(0).abort("enough");
      group.drain();
      CHECK(std::chrono::steady_clock::now() - begin < 30s);
    }));
  }
}

using lockstep::detail::ProgressThread;

namespace {

struct Log {
  std::vector<std::size_t> sizes;
  std::thread::id thread;
};

ProgressThread::Job entry(Log& log, std::size_t size) {
  return {[](void* self, lockstep::NumberSpan values) {
            static_cast<Log*>(self)->sizes.push_back(values.size());
            static_cast<Log*>(self)->thread = std::this_thread::get_id();
          },
          &log,
          {nullptr, size, lockstep::DataType::float32}};
}

ProgressThread::Job failure() {
  return {[](void*, lockstep::NumberSpan) { throw std::runtime_error("lost"); }};
}

}  // namespace

TEST_CASE("ProgressThread: does the jobs in their order, on another thread, again and again") {
  ProgressThread progress;
  progress.wait();
  Log log;
  std::vector<std::size_t> expected;
  for (std::size_t round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < round % 5; ++i) {
      progress.post(entry(log, round * 10 + i));
      expected.push_back(round * 10 + i);
    }
    progress.wait();
    REQUIRE(log.sizes == expected);
  }
  CHECK(log.thread != std::this_thread::get_id());
  CHECK(log.thread != std::thread::id());
}

TEST_CASE("ProgressThread: after a failure the rest is dropped; wait throws it once") {
  ProgressThread progress;
  Log log;
  progress.post(entry(log, 1));
  progress.post(failure());
  progress.post(entry(log, 2));
  CHECK_THROWS_WITH_AS(progress.wait(), "lost", std::runtime_error);
  CHECK(log.sizes == std::vector<std::size_t>{1});
  progress.wait();
  progress.post(entry(log, 3));
  progress.wait();
  CHECK(log.sizes == std::vector<std::size_t>{1, 3});

  progress.post(failure());
  progress.drain();
  progress.post(entry(log, 4));
  progress.wait();
  CHECK(log.sizes == std::vector<std::size_t>{1, 3, 4});
}

TEST_CASE("ProgressThread: its end waits for the job that it is in") {
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  struct Flags {
    std::atomic<bool>& begun;
    std::atomic<bool>& ended;
  } flags{begun, ended};
  {
    ProgressThread progress;
    progress.post({[](void* self, lockstep::NumberSpan) {
                     auto& f = *static_cast<Flags*>(self);
                     f.begun = true;
                     std::this_thread::sleep_for(std::chrono::milliseconds(20));
                     f.ended = true;
                   },
                   &flags});
    while (!begun) std::this_thread::yield();
  }
  CHECK(ended);
}
