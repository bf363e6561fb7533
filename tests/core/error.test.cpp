#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

namespace ls = lockstep;

static_assert(static_cast<int>(ls::ExitCode::success) == 0);
static_assert(static_cast<int>(ls::ExitCode::failure) == 1);
static_assert(static_cast<int>(ls::ExitCode::usage) == 2);
static_assert(static_cast<int>(ls::ExitCode::interrupted) == 128 + 2);
static_assert(static_cast<int>(ls::ExitCode::lost_peer) == 138);
static_assert(static_cast<int>(ls::ExitCode::terminated) == 128 + 15);

TEST_CASE("errors carry message and exit code, and are runtime errors") {
  const auto code_of = [](const auto& error) {
    try {
      throw error;
    } catch (const ls::Error& caught) {
      CHECK(std::string(caught.what()) == "what");
      return caught.exit_code();
    }
  };
  CHECK(code_of(ls::Error("what")) == ls::ExitCode::failure);
  CHECK(code_of(ls::Error("what", ls::ExitCode::lost_peer)) == ls::ExitCode::lost_peer);
  CHECK(code_of(ls::ConfigurationError("what")) == ls::ExitCode::usage);
  CHECK(code_of(ls::DataError("what")) == ls::ExitCode::failure);
  CHECK_THROWS_AS(throw ls::DataError("what"), std::runtime_error);
}

TEST_CASE("BadSample: names the row, or the sample in its place") {
  const lockstep::BadSample bad("loss: the label of ", 3, " is 10");
  CHECK(bad.what() == std::string("loss: the label of row 3 of the batch is 10"));
  CHECK(bad.row() == 3);
  CHECK(bad.of_sample("sample 1234").what() == std::string("loss: the label of sample 1234 is 10"));
  CHECK(bad.exit_code() == lockstep::ExitCode::failure);
}
