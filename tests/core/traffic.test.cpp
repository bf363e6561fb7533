#include "lockstep/core/traffic.hpp"

#include <doctest/doctest.h>

TEST_CASE("traffic: counts both directions") {
  const lockstep::Traffic before = lockstep::traffic();
  lockstep::detail::count_traffic(3, 4);
  CHECK(lockstep::traffic().sent == before.sent + 3);
  CHECK(lockstep::traffic().received == before.received + 4);
}
