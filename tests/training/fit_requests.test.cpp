#include "lockstep/training/fit_requests.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::ExitCode;
using ls::detail::FitRequests;

TEST_CASE("FitRequests: a stop and a preemption stay, a comparison is asked for one step") {
  FitRequests requests;
  CHECK_FALSE(requests.next().stop);
  CHECK_FALSE(requests.next().verify);
  CHECK(requests.next().preemption == ExitCode::success);
  requests.stop();
  requests.verify(true);
  requests.preempt(ExitCode::interrupted);
  CHECK(requests.next().verify);
  requests.verify(false);
  CHECK(requests.next().stop);
  CHECK_FALSE(requests.next().verify);
  CHECK(requests.next().preemption == ExitCode::interrupted);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { requests.preempt(ExitCode::lost_peer); }),
                 "got 138"));
  CHECK(requests.next().preemption == ExitCode::interrupted);
}

namespace {

/// While one lives, SIGTERM has a handler that does nothing.
struct OwnHandler {
  using Handler = void (*)(int);
  static void handle(int) {}
  Handler former = std::signal(SIGTERM, &OwnHandler::handle);
  ~OwnHandler() { std::signal(SIGTERM, former); }
};

}  // namespace

TEST_CASE("FitRequests: a signal counts while signals are taken, and after a callback's request") {
  const OwnHandler own;
  FitRequests requests;
  CHECK(std::string(requests.signal_name(ExitCode::interrupted)) == "SIGINT");
  CHECK(std::string(requests.signal_name(ExitCode::terminated)) == "SIGTERM");
  requests.preempt_on_signals();
  requests.leave_signals();
  std::raise(SIGTERM);  // goes to the program's own handler
  requests.take_signals_again();
  CHECK(requests.next().preemption == ExitCode::success);
  std::raise(SIGTERM);
  CHECK(requests.next().preemption == ExitCode::terminated);
  requests.preempt(ExitCode::interrupted);
  CHECK(requests.next().preemption == ExitCode::interrupted);
  requests.answer_signals();
}

TEST_CASE("FitRequests: what took no signals takes none again") {
  const OwnHandler own;
  FitRequests requests;
  requests.leave_signals();
  requests.take_signals_again();
  const bool is_untouched = std::signal(SIGTERM, &OwnHandler::handle) == &OwnHandler::handle;
  CHECK(is_untouched);
}
