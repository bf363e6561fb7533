#include "lockstep/collectives/kept_port.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>

using lockstep::KeptPort;

TEST_CASE("a kept port gives copies of the first descriptor, and closes its own at the end") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  {
    KeptPort port;
    CHECK_FALSE(port.is_set());
    CHECK(port.copy() == -1);
    port.keep(ends[1]);
    ::close(ends[1]);
    CHECK(port.is_set());
    const int copy = port.copy();
    CHECK(::write(copy, "x", 1) == 1);
    ::close(copy);
    char byte = 0;
    CHECK(::read(ends[0], &byte, 1) == 1);
  }
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 0);  // no writer is left
  ::close(ends[0]);
}
