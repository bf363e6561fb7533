#include "lockstep/core/log.hpp"

#include <doctest/doctest.h>

#include "support/captured_stderr.hpp"

TEST_CASE("log_line: one line each, with the library's name, on standard error") {
  const lockstep_test::CapturedStderr captured;
  lockstep::log_line("the first");
  lockstep::log_line("");
  CHECK(captured.text() == "lockstep: the first\nlockstep: \n");
}
