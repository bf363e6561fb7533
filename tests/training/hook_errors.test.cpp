#include "lockstep/training/hook_errors.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/error.hpp"

namespace ls = lockstep;
using ls::detail::call_hooks;
using ls::detail::rethrow_from;

namespace {

const ls::Activity hook{.call = "fit", .part = "on_epoch_end of SaveImages", .epoch = 2};

/// What becomes of an exception of a hook: rethrown as an E.
template <class E, class Thrown>
E rethrown(const Thrown& thrown) {
  try {
    try {
      throw thrown;  // NOLINT(misc-throw-by-value-catch-by-reference)
    } catch (...) {
      rethrow_from(hook);
    }
  } catch (const E& error) {
    return error;
  }
}

/// A list of callbacks, whose hooks the test is.
struct Site : ls::detail::HookSite {
  using HookSite::call;
};

}  // namespace

TEST_CASE("hook errors: the place of the hook stands before the message, and the kind stays") {
  CHECK(std::string(rethrown<ls::Error>(std::runtime_error("disk full")).what()) ==
        "fit, epoch 3, on_epoch_end of SaveImages: disk full");
  CHECK(std::string(rethrown<ls::ConfigurationError>(ls::ConfigurationError("no")).what()) ==
        "fit, epoch 3, on_epoch_end of SaveImages: no");
  CHECK(std::string(rethrown<ls::DataError>(ls::DataError("no")).what()) ==
        "fit, epoch 3, on_epoch_end of SaveImages: no");
  CHECK(rethrown<ls::Error>(ls::ReplicasDiffer("they do")).exit_code() == ls::ExitCode::lost_peer);
}

TEST_CASE("hook errors: the exception of the hook is nested in the new one") {
  try {
    try {
      throw std::out_of_range("at");
    } catch (...) {
      rethrow_from(hook);
    }
  } catch (const ls::Error& error) {
    CHECK_THROWS_AS(std::rethrow_if_nested(error), std::out_of_range);
    return;
  }
  FAIL("nothing was thrown");
}

TEST_CASE("hook errors: a lost peer, a preemption and what has no message stay as they are") {
  const ls::CollectiveError lost({.failed_rank = 1, .reason = "connection lost"});
  CHECK(std::string(rethrown<ls::CollectiveError>(lost).what()) == lost.what());
  CHECK(std::string(
            rethrown<ls::Preempted>(ls::Preempted("stop", ls::ExitCode::terminated)).what()) ==
        "stop");
  CHECK(rethrown<int>(7) == 7);
}

TEST_CASE("hook errors: only what a hook of the program has thrown gets a place") {
  Site site;
  const ls::Activity place{.call = "fit", .epoch = 2};
  CHECK_THROWS_WITH_AS(call_hooks(site, place,
                                  [&] {
                                    site.call("on_epoch_end of SaveImages", false,
                                              [] { throw std::runtime_error("disk full"); });
                                  }),
                       "fit, epoch 3, on_epoch_end of SaveImages: disk full", ls::Error);
  CHECK_THROWS_WITH_AS(call_hooks(site, place,
                                  [&] {
                                    site.call("on_epoch_end of ProgressBar", true,
                                              [] { throw std::runtime_error("disk full"); });
                                  }),
                       "disk full", std::runtime_error);
  int calls = 0;
  call_hooks(site, place, [&] { ++calls; });
  CHECK(calls == 1);
}
