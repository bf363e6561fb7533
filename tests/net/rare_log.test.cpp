#include "lockstep/net/rare_log.hpp"

#include <doctest/doctest.h>

#include "support/captured_stderr.hpp"

using namespace lockstep::detail;
using namespace std::chrono_literals;

TEST_CASE("rare log: a report every five seconds, and at once where it must be") {
  RareLog log;
  const auto begin = RareLog::Clock::now();
  CHECK_FALSE(log.is_due(begin));
  CHECK(log.is_due(begin + 5s));
  CHECK_FALSE(log.is_due(begin + 9s));
  log.hasten();
  CHECK(log.is_due(begin + 9s));
  CHECK_FALSE(log.is_due(begin + 13s));
  CHECK(log.due() == begin + 14s);
}

TEST_CASE("rare log: the same line every five seconds, another one after a second") {
  const lockstep_test::CapturedStderr captured;
  RareLog log;
  const auto begin = RareLog::Clock::now();
  log.line("one", lockstep::LogLevel::info, begin);
  log.line("two", lockstep::LogLevel::info, begin + 900ms);  // is lost
  log.turned_away("a: ", "10.0.0.1", "is late", begin + 1s);
  for (int i = 0; i < 8; ++i) log.turned_away("a: ", "10.0.0.1", "is late", begin + 1s + i * 1s);
  CHECK(captured.text() ==
        "lockstep: one\n"
        "lockstep: a: a process at 10.0.0.1 is late; it is turned away\n"
        "lockstep: a: a process at 10.0.0.1 is late; it is turned away\n");
}
