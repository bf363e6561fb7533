// A client for tests of servers on this machine.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

namespace lockstep_test {

/// A connection that gives up after ten seconds.
class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { ::close(socket_); }

  [[nodiscard]] bool is_connected() const { return connected_; }
  void send(const std::string& text) const {
    (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Until the server closes the connection.
  [[nodiscard]] std::string all() const {
    std::string text;
    std::array<char, 4096> chunk;
    for (ssize_t n = 0; (n = ::recv(socket_, chunk.data(), chunk.size(), 0)) > 0;)
      text.append(chunk.data(), static_cast<std::size_t>(n));
    return text;
  }

 private:
  int socket_;
  bool connected_ = false;
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
