#include "lockstep/collectives/protocol/failure_cause.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

using namespace lockstep;
using lockstep::detail::FailureCause;

TEST_SUITE("failure cause") {
  TEST_CASE("the first one counts, whichever thread sets it") {
    FailureCause cause;
    CHECK_FALSE(cause.is_set());
    std::vector<std::string> returned(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < returned.size(); ++i)
      threads.emplace_back([&, i] {
        CollectiveFailure failure;
        failure.reason = std::to_string(i);
        returned[i] = cause.set(failure).reason;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(cause.is_set());
    CHECK(returned == std::vector<std::string>(4, cause.get().reason));
  }
}
