#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/net/socket.hpp"

namespace lockstep_test {

/// Addresses for processes that listen by themselves. (Below the ports that a system gives to those
/// who ask for any.)
inline std::vector<std::string> free_addresses(int count) {
  static int next =
      11'000 + ::getpid() * 97 % 15'000;  // processes that run side by side stay apart
  std::vector<std::string> addresses;
  for (; addresses.size() < static_cast<std::size_t>(count); ++next) {
    const lockstep::detail::Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto name = *lockstep::detail::ip_name("127.0.0.1", next);
    if (::bind(probe.get(), lockstep::detail::plain(name), lockstep::detail::size_of(name)) == 0)
      addresses.push_back("127.0.0.1:" + std::to_string(next));
  }
  return addresses;
}

}  // namespace lockstep_test
