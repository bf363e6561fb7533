#include "lockstep/cluster/detail/worker_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>

using namespace lockstep::detail;

TEST_CASE("signal pipe: a signal can be read, once, and an ignored one cannot") {
  void (*const former)(int) = ::signal(SIGHUP, SIG_IGN);
  {
    const SignalPipe pipe;
    CHECK(pipe.take() == 0);
    ::raise(SIGHUP);
    CHECK(pipe.take() == 0);
    ::raise(SIGTERM);
    CHECK(pipe.take() == SIGTERM);
    ::raise(SIGUSR1);
    CHECK(pipe.take() == SIGUSR1);
    CHECK(pipe.take() == 0);
  }
  ::signal(SIGHUP, former);
}

TEST_CASE("blocked signals: come when they are released") {
  const SignalPipe pipe;
  const BlockedSignals blocked;
  ::raise(SIGINT);
  CHECK(pipe.take() == 0);
  blocked.release();
  CHECK(pipe.take() == SIGINT);
}

namespace {

void (*handler_of(int signal))(int) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

void handler(int) {}

}  // namespace

TEST_CASE("ignored signals: those without a handler, until they are restored") {
  void (*const former_pipe)(int) = ::signal(SIGPIPE, SIG_DFL);
  void (*const former_size)(int) = ::signal(SIGXFSZ, &handler);
  const lockstep::detail::IgnoredSignals ignored;
  CHECK((handler_of(SIGPIPE) == SIG_IGN));
  CHECK((handler_of(SIGXFSZ) == &handler));
  ignored.restore();
  CHECK((handler_of(SIGPIPE) == SIG_DFL));
  CHECK((handler_of(SIGXFSZ) == &handler));
  ::signal(SIGPIPE, former_pipe);
  ::signal(SIGXFSZ, former_size);
}
