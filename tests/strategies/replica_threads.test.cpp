#include "lockstep/strategies/replica_threads.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <stdexcept>

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
    CHECK_THROWS_WITH_AS((void)ReplicaThreads::count(-1), "replicas must be 0 (one for each core) to 1024, got -1",
                         ConfigurationError);
    CHECK_THROWS_AS((void)ReplicaThreads::count(1025), ConfigurationError);
  }

  TEST_CASE("each index runs once, always on the same thread, the first on the caller's") {
    ReplicaThreads threads(4);
    std::vector<std::thread::id> first(4), second(4);
    for (auto* ids : {&first, &second}) {
      const auto remember = [&](int i) { (*ids)[static_cast<std::size_t>(i)] = std::this_thread::get_id(); };
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
}
