#include "lockstep/cluster/detail/signal_pipe.hpp"

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
