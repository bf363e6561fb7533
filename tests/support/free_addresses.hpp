#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep_test {

/// Addresses for processes that listen by themselves. (Below the ports that a system gives to those
/// who ask for any.)
inline std::vector<std::string> free_addresses(int count) {
  static int next =
      11'000 + ::getpid() * 97 % 15'000;  // processes that run side by side stay apart
  std::vector<std::string> addresses;
  for (; addresses.size() < static_cast<std::size_t>(count); ++next) {
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(next));
    if (::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      addresses.push_back("127.0.0.1:" + std::to_string(next));
    ::close(probe);
  }
  return addresses;
}

}  // namespace lockstep_test
