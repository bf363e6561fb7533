#include "lockstep/collectives/error.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

using namespace lockstep;

namespace {

std::string message(CollectiveFailure failure) {
  return CollectiveError(std::move(failure)).what();
}

/// Notes how it was aborted.
struct WithCode {
  std::string reason;
  std::optional<ExitCode> code;
  void abort(std::string_view why, ExitCode because) noexcept {
    reason = why;
    code = because;
  }
};
struct WithoutCode {
  std::string reason;
  void abort(std::string_view why) noexcept { reason = why; }
};

}  // namespace

TEST_CASE(
    "CollectiveError: says what was done, who failed where and why, and what had come by then") {
  CHECK(
      message({.failed_rank = 2,
               .address = "10.0.0.3:5000",
               .operation = "all_reduce",
               .step = 41,
               .bytes_done = 1234,
               .seconds = 2.26,
               .reason = "closed the connection"}) ==
      "all_reduce in step 42: worker 2 (10.0.0.3:5000) failed: closed the connection [after 2.3 s "
      "and 1234 received "
      "bytes]");
  // A thread has no address, and there may be no rank to name.
  CHECK(message({.failed_rank = 0, .operation = "barrier", .reason = "std::bad_alloc"}) ==
        "barrier: worker 0 failed: std::bad_alloc [after 0.0 s and 0 received bytes]");
  CHECK(message({.seconds = 0.96, .reason = "is lost"}) ==
        "collective operation: is lost [after 1.0 s and 0 received bytes]");
}

TEST_CASE("CollectiveError: running again helps, unless the cause is permanent") {
  CHECK(CollectiveError({.reason = "is lost"}).exit_code() == ExitCode::lost_peer);
  const CollectiveError permanent(
      {.failed_rank = 3, .reason = "wrong data", .code = ExitCode::failure});
  CHECK(permanent.exit_code() == ExitCode::failure);
  CHECK(permanent.failed_rank() == 3);
  CHECK(permanent.failure().reason == "wrong data");
}

TEST_CASE("abort: hands the exit code on where the target takes one") {
  WithCode with;
  detail::abort(with, "why", ExitCode::usage);
  CHECK(with.reason == "why");
  CHECK(with.code == ExitCode::usage);
  WithoutCode without;
  detail::abort(without, "why", ExitCode::usage);
  CHECK(without.reason == "why");
}

TEST_CASE("failure_code: what a peer names counts when it is the code of a failure") {
  for (const ExitCode code :
       {ExitCode::failure, ExitCode::usage, ExitCode::interrupted, ExitCode::terminated})
    CHECK(detail::failure_code(static_cast<int>(code)) == code);
  for (const int code : {0, -1, 3, 138, 1 << 20})
    CHECK(detail::failure_code(code) == ExitCode::lost_peer);
}
