// Also compiled without the calls of Linux (see cmake/link.cmake).
#include "lockstep/core/system.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"
#include "lockstep/net/socket.hpp"

namespace ls = lockstep;
using ls::detail::Descriptor;

namespace {

bool is_private_and_does_not_block(int descriptor) {
  return (::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0 &&
         (::fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0;
}

/// Two ends of a TCP connection.
struct Connection {
  Descriptor caller, callee;

  Connection() {
    Descriptor listener = ls::detail::listen_at("127.0.0.1", 0);
    REQUIRE(listener.is_open());
    CHECK(is_private_and_does_not_block(listener.get()));
    std::string why;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    caller = ls::detail::call_socket(ls::detail::own_name(listener.get()), until, why);
    REQUIRE_MESSAGE(caller.is_open(), why);
    pollfd ready{listener.get(), POLLIN, 0};
    REQUIRE(ls::detail::poll_until(ready, until));
    callee = Descriptor(ls::detail::accept_socket(listener.get()));
    REQUIRE(callee.is_open());
  }
};

}  // namespace

TEST_CASE("sockets: no child inherits them, and they do not block") {
  const Connection both;
  CHECK(is_private_and_does_not_block(both.caller.get()));
  CHECK(is_private_and_does_not_block(both.callee.get()));
}

TEST_CASE("a socket whose other side has closed it") {
  Connection both;
  CHECK_FALSE(ls::detail::is_closed_by_peer(both.callee.get()));
  CHECK(::send(both.caller.get(), "x", 1, ls::detail::no_signal) == 1);
  CHECK_FALSE(ls::detail::is_closed_by_peer(both.callee.get()));
  both.caller.close();
  char byte = 0;
  pollfd ready{both.callee.get(), POLLIN, 0};
  CHECK(ls::detail::poll_until(ready, std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  CHECK(::recv(both.callee.get(), &byte, 1, 0) == 1);
  CHECK(ls::detail::poll_until(ready, std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  CHECK(ls::detail::is_closed_by_peer(both.callee.get()));
  // No SIGPIPE, which would end this program: the first answer resets the connection.
  for (int i = 0; i < 50 && ::send(both.callee.get(), "x", 1, ls::detail::no_signal) == 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(::send(both.callee.get(), "x", 1, ls::detail::no_signal) == -1);
}

TEST_CASE("the path of this program, and when its file was changed") {
  const std::string path = ls::detail::path_of_program();
  REQUIRE(std::filesystem::exists(path));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  const auto changed = std::filesystem::last_write_time(path).time_since_epoch();
  const auto now = std::filesystem::file_time_type::clock::now().time_since_epoch();
  const auto age = std::chrono::nanoseconds(now - changed).count();
  const auto system_now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t own_age =
      std::chrono::nanoseconds(system_now).count() - ls::detail::nanoseconds_of_change(status);
  CHECK(std::abs(own_age - age) < 1'000'000'000);
}
