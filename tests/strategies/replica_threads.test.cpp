#include "lockstep/strategies/replica_threads.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/captured_stderr.hpp"

using namespace lockstep;

namespace {
const auto ignore_abort = [](int, std::string_view, ExitCode) {};
}

TEST_SUITE("replica_threads") {
  TEST_CASE("the number of replicas") {
    CHECK(ReplicaThreads::count(3) == 3);
    CHECK(ReplicaThreads::count(0) >= 1);
    CHECK(ReplicaThreads::count(0, 2) == std::max(1, ReplicaThreads::count(0) / 2));
    CHECK(ReplicaThreads::count(0, 1000) == 1);
    CHECK(ReplicaThreads::count(3, 1000) == 3);
    CHECK_THROWS_WITH_AS((void)ReplicaThreads::count(-1),
                         "replicas must be 0 (one for each core) to 1024, got -1",
                         ConfigurationError);
    CHECK_THROWS_AS((void)ReplicaThreads::count(1025), ConfigurationError);
  }

  TEST_CASE("each index runs once, always on the same thread, the first on the caller's") {
    ReplicaThreads threads(4);
    std::vector<std::thread::id> first(4), second(4);
    for (auto* ids : {&first, &second}) {
      const auto remember = [&](int i) {
        (*ids)[static_cast<std::size_t>(i)] = std::this_thread::get_id();
      };
      threads.run(remember, ignore_abort);
    }
    CHECK(first == second);
    CHECK(first[0] == std::this_thread::get_id());
    CHECK(std::set<std::thread::id>(first.begin(), first.end()).size() == 4);
  }

  TEST_CASE("the first exception is reported once and thrown again") {
    ReplicaThreads threads(3);
    std::atomic<int> aborts = 0;
    std::atomic<bool> stop = false;
    const auto fail = [&](int i) {
      if (i == 1) throw ConfigurationError("cause");
      while (!stop) std::this_thread::yield();
      throw std::runtime_error("consequence");
    };
    const auto abort = [&](int i, std::string_view what, ExitCode code) {
      ++aborts;
      CHECK(i == 1);
      CHECK(what == "cause");
      CHECK(code == ExitCode::usage);
      stop = true;
    };
    for (int round = 0; round < 3; ++round) {
      stop = false;
      CHECK_THROWS_WITH_AS(threads.run(fail, abort), "cause", ConfigurationError);
    }
    CHECK(aborts == 3);
    const auto nothing = [](int) {};
    CHECK_NOTHROW(threads.run(nothing, ignore_abort));
    const auto throw_number = [](int) { throw 3; };
    CHECK_THROWS_AS(threads.run(throw_number, ignore_abort), int);
  }

  TEST_CASE(
      "lead: the first thread works, the others wait, and take part in what it runs, to any "
      "depth") {
    for (const int size : {1, 2, 4}) {
      ReplicaThreads threads(size);
      std::vector<int> calls(static_cast<std::size_t>(size));
      const std::function<void(int, int)> go = [&](int i, int depth) {
        ++calls[static_cast<std::size_t>(i)];
        if (depth == 3) return;
        for (int time = 0; time < 2; ++time)
          threads.lead(i, [&] {
            CHECK(i == 0);
            const auto inner = [&](int k) { go(k, depth + 1); };
            threads.run(inner, ignore_abort);
          });
      };
      const auto outer = [&](int i) { go(i, 0); };
      for (int round = 0; round < 3; ++round) threads.run(outer, ignore_abort);
      CHECK(calls == std::vector<int>(static_cast<std::size_t>(size), 3 * (1 + 2 + 4 + 8)));
      CHECK_FALSE(threads.is_running());
    }
  }

  TEST_CASE("lead: what the first thread has written is seen by the others, many times") {
    ReplicaThreads threads(3);
    int shared = 0;
    std::atomic<int> wrong = 0;
    const auto count = [&](int i) {
      for (int time = 1; time <= 2000; ++time) {
        threads.lead(i, [&] { ++shared; });
        wrong += shared != time;
      }
    };
    threads.run(count, ignore_abort);
    CHECK(wrong == 0);
  }

  TEST_CASE("lead: an exception of any thread, before, in or after it, ends all of them") {
    ReplicaThreads threads(3);
    for (int thrower = 0; thrower < 3; ++thrower)
      for (const char* when : {"before", "in", "after"}) {
        CAPTURE(thrower);
        CAPTURE(when);
        std::atomic<int> aborts = 0;
        const auto fail_when = [&](int i, std::string_view now) {
          if (i == thrower && now == when) throw ConfigurationError("cause");
        };
        const auto f = [&](int i) {
          fail_when(i, "before");
          threads.lead(i, [&] { fail_when(thrower, "in"); });  // (that is the first thread's)
          fail_when(i, "after");
          threads.lead(i, [] {});
        };
        const auto abort = [&](int, std::string_view what, ExitCode code) {
          ++aborts;
          CHECK(what == "cause");
          CHECK(code == ExitCode::usage);
        };
        CHECK_THROWS_WITH_AS(threads.run(f, abort), "cause", ConfigurationError);
        CHECK(aborts == 1);
        CHECK_FALSE(threads.is_running());
      }
  }

  TEST_CASE(
      "lead: a failure of an inner run comes out there, and the outer one goes on when it is "
      "caught") {
    ReplicaThreads threads(3);
    int resets = 0;
    const auto reset = [&] { ++resets; };
    for (const bool caught : {true, false}) {
      resets = 0;
      const auto fail = [](int i) {
        if (i == 2) throw std::runtime_error("inner");
      };
      const auto outer = [&](int i) {
        threads.lead(i, [&] {
          if (caught)
            CHECK_THROWS_WITH_AS(threads.run(fail, ignore_abort, reset), "inner",
                                 std::runtime_error);
          else
            threads.run(fail, ignore_abort, reset);
        });
        threads.lead(i, [] {});
      };
      if (caught)
        threads.run(outer, ignore_abort, reset);
      else
        CHECK_THROWS_WITH_AS(threads.run(outer, ignore_abort, reset), "inner", std::runtime_error);
      CHECK(resets == (caught ? 2 : 3));  // before the outer run, and after each failure
    }
  }

  TEST_CASE("pinned threads stay on cores that they alone have, the first one during run()") {
    const auto core_of_thread = [] {  // -1: several
      cpu_set_t set;
      CPU_ZERO(&set);
      REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
      int core = 0;
      while (!CPU_ISSET(static_cast<std::size_t>(core), &set)) ++core;
      return CPU_COUNT(&set) == 1 ? core : -1;
    };
    const int before = core_of_thread();
    const int size = static_cast<int>(allowed_cores().size());
    ReplicaThreads threads(size, 0, Pinning::on);
    const lockstep_test::CapturedStderr captured;
    ReplicaThreads others(1, 0, Pinning::on);  // no core is left
    if (threads.cores().empty()) return;       // other programs have reserved some
    CHECK(others.cores().empty());
    CHECK(captured.text().find("Pinning::on: the replicas are not pinned: 1 of them") !=
          std::string::npos);
    std::vector<int> seen(static_cast<std::size_t>(size));
    const auto look = [&](int i) { seen[static_cast<std::size_t>(i)] = core_of_thread(); };
    threads.run(look, ignore_abort);
    CHECK(seen == threads.cores());
    CHECK(std::set<int>(seen.begin(), seen.end()).size() == static_cast<std::size_t>(size));
    CHECK(core_of_thread() == before);
    others.run([&](int) { CHECK(core_of_thread() == before); }, ignore_abort);
    CHECK(ReplicaThreads(1).cores().empty());
  }

  TEST_CASE("run: where the threads are not free it throws at once") {
    for (const int size : {1, 2}) {
      ReplicaThreads threads(size);
      const auto nothing = [](int) {};
      const auto refused = [&] { CHECK_THROWS_AS(threads.run(nothing, ignore_abort), Error); };
      const auto f = [&](int i) {
        refused();  // in no lead()
        threads.lead(i, [&] {
          std::thread(refused).join();  // another thread
          const auto inner = [&](int) { refused(); };
          threads.run(inner, ignore_abort);
        });
        refused();
      };
      threads.run(f, ignore_abort);
      CHECK_THROWS_AS(threads.lead(0, [] {}), Error);
      CHECK_NOTHROW(threads.run(nothing, ignore_abort));
    }
  }
}
