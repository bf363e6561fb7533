#include "lockstep/net/listener.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <chrono>
#include <cstdlib>
#include <string>

using namespace lockstep::detail;

TEST_CASE("the launcher's socket is taken if it listens on the port, and nothing else is") {
  const Descriptor launcher = listen_for("127.0.0.1", "", 0);
  REQUIRE(launcher.is_open());
  const int port = port_of(own_name(launcher.get()));
  ::unsetenv("LOCKSTEP_LISTEN_FD");
  CHECK_FALSE(inherited_listener(port).is_open());
  ::setenv("LOCKSTEP_LISTEN_FD", std::to_string(launcher.get()).c_str(), 1);
  CHECK_FALSE(inherited_listener(port == 1 ? 2 : port - 1).is_open());
  const Descriptor taken = inherited_listener(port);
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

TEST_CASE("an IP address names a socket, and nothing else does") {
  CHECK(ip_text(*ip_name("10.0.0.1", 80)) == "10.0.0.1");
  CHECK(port_of(*ip_name("10.0.0.1", 80)) == 80);
  CHECK(ip_text(*ip_name("fd00::1", 80)) == "fd00::1");
  CHECK(port_of(*ip_name("fd00::1", 80)) == 80);
  CHECK(ip_text(*ip_name("::ffff:10.0.0.1", 80)) == "10.0.0.1");
  for (const char* const none : {"localhost", "", "1", "127.1", "10.0.0.256", ":", "fd00::g"})
    CHECK_FALSE(ip_name(none, 80));
}

TEST_CASE("an address of another machine is told from those of this one") {
  CHECK(is_of_this_machine(*ip_name("127.0.0.1", 9)));
  CHECK_FALSE(is_of_this_machine(*ip_name("192.0.2.1", 9)));  // for documents (RFC 5737)
}
