#include "lockstep/extra/mpi/watchdog.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

using namespace lockstep;
using namespace std::chrono_literals;

namespace {

/// Waits until `condition()` holds. Returns false after a minute.
template <class F>
bool comes_true(F condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return condition();
}

}  // namespace

TEST_SUITE("watchdog") {
  TEST_CASE("work that does not end is named, once") {
    std::atomic<int> calls{0};
    std::string named;
    Watchdog watchdog(20ms, [&](const char* what) {
      named = what;
      ++calls;
    });
    const auto begin = std::chrono::steady_clock::now();
    watchdog.begin("first");
    watchdog.begin("second");
    REQUIRE(comes_true([&] { return calls == 1; }));
    CHECK(std::chrono::steady_clock::now() - begin > 20ms);
    CHECK(named == "second");
    std::this_thread::sleep_for(60ms);
    CHECK(calls == 1);
  }

  TEST_CASE("it is ready for the next work then") {
    std::atomic<int> calls{0};
    Watchdog watchdog(5ms, [&](const char*) { ++calls; });
    watchdog.begin("first");
    REQUIRE(comes_true([&] { return calls == 1; }));
    watchdog.begin("second");
    CHECK(comes_true([&] { return calls == 2; }));
  }

  TEST_CASE("work that ends, or begins again, in time is left alone") {
    std::atomic<int> calls{0};
    Watchdog watchdog(10s, [&](const char*) { ++calls; });
    for (int i = 0; i < 1000; ++i) {
      watchdog.begin("work");
      watchdog.end();
    }
    watchdog.begin("unfinished");  // the end of the watchdog is no delay
    CHECK(calls == 0);
  }

  TEST_CASE("what has ended is never late") {
    std::atomic<int> calls{0};
    Watchdog watchdog(20ms, [&](const char*) { ++calls; });
    watchdog.begin("work");
    watchdog.end();
    std::this_thread::sleep_for(80ms);
    CHECK(calls == 0);
  }
}
