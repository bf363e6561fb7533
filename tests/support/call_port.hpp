// Connections of tests to ports of this machine.
#pragma once

#include <sys/socket.h>

#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep_test {

/// A socket that blocks, connected to a port of the loopback interface; not open if none listens.
[[nodiscard]] inline lockstep::detail::Descriptor call_port(int port) {
  const auto name = *lockstep::detail::ip_name("127.0.0.1", port);
  lockstep::detail::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), lockstep::detail::plain(name), lockstep::detail::size_of(name)) != 0)
    socket.close();
  return socket;
}

}  // namespace lockstep_test
