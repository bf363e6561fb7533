#include "lockstep/collectives/meeting/inherited_listener.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <chrono>
#include <cstdlib>
#include <string>

using namespace lockstep::detail;

TEST_CASE("the launcher's socket is taken if it listens on the port, and nothing else is") {
  const MeetingSocket launcher = listen_for_meeting("127.0.0.1", "", 0);
  REQUIRE(launcher.is_open());
  const int port = port_of(own_name(launcher.get()));
  ::unsetenv("LOCKSTEP_LISTEN_FD");
  CHECK_FALSE(inherited_listener(port).is_open());
  ::setenv("LOCKSTEP_LISTEN_FD", std::to_string(launcher.get()).c_str(), 1);
  CHECK_FALSE(inherited_listener(port == 1 ? 2 : port - 1).is_open());
  const MeetingSocket taken = inherited_listener(port);
  REQUIRE(taken.is_open());
  CHECK(taken.get() != launcher.get());
  CHECK((::fcntl(taken.get(), F_GETFL) & O_NONBLOCK) != 0);
  std::string why;
  const auto names = resolve("127.0.0.1", port, why);
  CHECK(call_socket(names.at(0), std::chrono::steady_clock::now() + std::chrono::seconds(5), why)
            .is_open());
  ::setenv("LOCKSTEP_LISTEN_FD", "1", 1);
  CHECK_FALSE(inherited_listener(port).is_open());
  ::unsetenv("LOCKSTEP_LISTEN_FD");
}
