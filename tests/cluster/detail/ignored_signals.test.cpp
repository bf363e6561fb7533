#include "lockstep/cluster/detail/ignored_signals.hpp"

#include <doctest/doctest.h>
#include <signal.h>

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
