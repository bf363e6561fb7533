#include "lockstep/core/thread.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <thread>

namespace {

/// A system that has no thread left.
struct NoThread {
  template <class F>
  explicit NoThread(F&&) {
    throw std::system_error(EAGAIN, std::generic_category());
  }
};

}  // namespace

TEST_CASE("start_thread: runs what it is given") {
  bool has_run = false;
  lockstep::start_thread("a test", [&] { has_run = true; }).join();
  CHECK(has_run);
}

TEST_CASE("start_thread: when no thread can start, the error names its work and the limits") {
  std::string text;
  try {
    (void)lockstep::start_thread<NoThread>("replica 1 of 2", [] {});
  } catch (const lockstep::Error& error) {
    text = error.what();
  }
  CHECK(text.starts_with(
      "cannot start the thread for replica 1 of 2: Resource temporarily unavailable"));
  CHECK(text.ends_with(lockstep::limits_text(lockstep::Resource::threads)));
}

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
