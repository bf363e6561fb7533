#include "lockstep/collectives/protocol/startup_claims.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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

namespace {

struct Connection {
  std::uint64_t incarnation;
};
using Pointer = std::shared_ptr<Connection>;
using Place = StartupPlace<Pointer>;

Pointer of(std::uint64_t incarnation) {
  return std::make_shared<Connection>(Connection{incarnation});
}

}  // namespace

TEST_SUITE("start-up place") {
  TEST_CASE("a connection replaces the one before it, and all of another process") {
    Place place(3);
    std::vector<std::pair<std::size_t, Pointer>> dropped;
    const auto put = [&](std::size_t link, const Pointer& connection) {
      dropped.clear();
      place.put(link, connection,
                [&](std::size_t at, const Pointer& former) { dropped.emplace_back(at, former); });
    };
    const Pointer control = of(1), data = of(1);
    put(0, control);
    put(1, data);
    CHECK(dropped.empty());
    CHECK_FALSE(place.is_complete());
    put(2, of(1));
    CHECK(place.is_complete());
    CHECK(place.control() == control);

    const Pointer again = of(1);
    put(1, again);
    CHECK(dropped == std::vector{std::pair(std::size_t{1}, data)});
    put(0, of(2));
    CHECK(dropped.size() == 3);
    CHECK(dropped[0] == std::pair(std::size_t{0}, control));
    CHECK(dropped[1] == std::pair(std::size_t{1}, again));
    CHECK(place.links[1] == nullptr);
    CHECK_FALSE(place.is_complete());
  }

  TEST_CASE("a guest prevails when the older process is gone or silent; two that live are twins") {
    Place place(2);
    CHECK_FALSE(place.is_anothers(1));
    CHECK(place.contest(1, true, 0s) == Place::Contest::prevails);
    place.put(0, of(1), [](std::size_t, const Pointer&) {});
    CHECK_FALSE(place.is_anothers(1));
    CHECK(place.is_anothers(2));
    CHECK(place.contest(1, true, 0s) == Place::Contest::prevails);
    CHECK(place.contest(2, true, 0s) == Place::Contest::twins);
    CHECK(place.contest(2, false, 1s) == Place::Contest::goes_on);
    CHECK(place.contest(2, false, 2s) == Place::Contest::prevails);
  }
}
