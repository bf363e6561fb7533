// A client for tests of servers on this machine.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <string>

#include "support/call_port.hpp"

namespace lockstep_test {

/// A connection that gives up after ten seconds.
class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(call_port(port)) {
    lockstep::detail::set_option(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, timeval{10, 0});
  }

  [[nodiscard]] bool is_connected() const { return socket_.is_open(); }
  void send(const std::string& text) const {
    (void)!::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Until the server closes the connection.
  [[nodiscard]] std::string all() const {
    std::string text;
    std::array<char, 4096> chunk;
    for (ssize_t n = 0; (n = ::recv(socket_.get(), chunk.data(), chunk.size(), 0)) > 0;)
      text.append(chunk.data(), static_cast<std::size_t>(n));
    return text;
  }

 private:
  lockstep::detail::Descriptor socket_;
};

/// What the server answers to this.
inline std::string http_ask(int port, const std::string& request) {
  const HttpClient client(port);
  client.send(request);
  return client.all();
}
inline std::string http_get(int port, const std::string& path) {
  return http_ask(port, "GET " + path + " HTTP/1.0\r\nHost: here\r\n\r\n");
}

}  // namespace lockstep_test
