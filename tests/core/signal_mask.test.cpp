#include "lockstep/core/signal_mask.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace lockstep::detail;

namespace {

bool is_blocked(int signal) {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return ::sigismember(&mask, signal) == 1;
}

}  // namespace

TEST_CASE(
    "signal mask: a thread that is started under it gets none but its own faults, and its starter "
    "all again") {
  bool interrupt = false, hangup = false, fault = true;
  std::thread thread;
  {
    const SignalMask mask;
    thread = std::thread([&] {
      interrupt = is_blocked(SIGINT);
      hangup = is_blocked(SIGHUP);
      fault = is_blocked(SIGSEGV);
    });
  }
  thread.join();
  CHECK(interrupt);
  CHECK(hangup);
  CHECK_FALSE(fault);
  CHECK_FALSE(is_blocked(SIGINT));
}
