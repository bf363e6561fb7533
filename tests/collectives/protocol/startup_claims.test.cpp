#include "lockstep/collectives/protocol/startup_claims.hpp"

#include <doctest/doctest.h>

using namespace lockstep::detail;
using namespace std::chrono_literals;

TEST_SUITE("start-up claims") {
  const StartupClaims::Clock::time_point now(100s);

  TEST_CASE(
      "one claim ends nothing; one that is made again and again ends the start-up after 2 s") {
    StartupClaims claims(3, 60s);
    for (auto time = 0ms; time < 2000ms; time += 200ms)
      CHECK_FALSE(claims.ends_for_callee(1, 7, now + time));
    CHECK_FALSE(claims.ends_for_callee(2, 7, now + 1900ms));  // another place
    CHECK(claims.ends_for_callee(1, 7, now + 2000ms));
  }

  TEST_CASE("another process, a long silence and a process that fits begin anew") {
    StartupClaims claims(2, 60s);
    CHECK_FALSE(claims.ends_for_callee(1, 7, now));
    SUBCASE("another process") { CHECK_FALSE(claims.ends_for_callee(1, 8, now + 1500ms)); }
    SUBCASE("one that fits") {
      CHECK_FALSE(claims.ends_for_callee(1, 7, now + 1500ms));
      claims.settle(1);
    }
    SUBCASE("silence") {}
    CHECK_FALSE(claims.ends_for_callee(1, 7, now + 2500ms));
    CHECK_FALSE(claims.ends_for_callee(1, 7, now + 4400ms));
    CHECK(claims.ends_for_callee(1, 7, now + 4500ms));
  }

  TEST_CASE(
      "a caller ends later, so that the callee can say that it does, or soon when that has said "
      "so") {
    StartupClaims claims(2, 60s);
    CHECK_FALSE(claims.ends_for_caller(0, 7, true, now));  // a verdict at once is no verdict
    CHECK_FALSE(claims.ends_for_caller(0, 7, true, now + 900ms));
    CHECK_FALSE(claims.ends_for_caller(0, 7, false, now + 2000ms));
    CHECK(claims.ends_for_caller(0, 7, true, now + 2000ms));
    CHECK_FALSE(claims.ends_for_caller(0, 7, false, now + 3900ms));
    CHECK(claims.ends_for_caller(0, 7, false, now + 4000ms));
  }

  TEST_CASE("a short start-up has short claims") {
    StartupClaims claims(2, 1s);
    CHECK_FALSE(claims.ends_for_callee(1, 7, now));
    CHECK(claims.ends_for_callee(1, 7, now + 250ms));
  }
}
