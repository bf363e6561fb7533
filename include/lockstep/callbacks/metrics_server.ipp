#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/callbacks/metrics_server.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A socket that is closed at its end.
class ServedSocket {
 public:
  explicit ServedSocket(int descriptor) noexcept : descriptor_(descriptor) {}
  ServedSocket(ServedSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ServedSocket& operator=(ServedSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~ServedSocket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

struct MetricsServer::Impl {
  using Clock = std::chrono::steady_clock;

  /// A request that is read, then an answer that is written, then the wait for the client's end.
  struct Connection {
    ServedSocket socket;
    Clock::time_point deadline;
    std::string request{};
    std::string answer{};
    std::size_t sent = 0;

    [[nodiscard]] bool answers() const noexcept { return sent < answer.size(); }
  };

  explicit Impl(Pages shown) : pages(std::move(shown)) {
    if (::pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0)
      throw Error(concat({"cannot make a pipe: ", std::strerror(errno)}));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    for (const int end : wake) ::close(end);
  }

  void listen(const std::string& address, int first, int ports) {
    sockaddr_storage name{};
    auto& v4 = reinterpret_cast<sockaddr_in&>(name);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(name);
    socklen_t size = sizeof v4;
    if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
      name.ss_family = AF_INET;
    } else if (::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
      name.ss_family = AF_INET6;
      size = sizeof v6;
    } else {
      throw ConfigurationError(
          concat({"'", address, "' is no IP address; expected one such as 127.0.0.1, or 0.0.0.0 ",
                  "for all interfaces"}));
    }
    int error = EADDRINUSE;
    for (int i = 0; i < ports && error == EADDRINUSE && first + i <= 65535; ++i) {
      // (A new one each time: where another process listens first, this one keeps the port's name.)
      listener =
          ServedSocket(::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int on = 1;
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      // (The port has one place in both kinds of names.)
      v4.sin_port = htons(static_cast<std::uint16_t>(first + i));
      const bool is_bound =
          ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0 &&
          ::listen(listener.get(), 2 * most_connections) == 0;
      error = is_bound ? 0 : errno;
    }
    if (error != 0)
      throw Error(concat({"cannot listen on ", address, ", port ", first,
                          ports > 1 ? concat({" to ", std::min(65535, first + ports - 1)}) : "",
                          ": ", std::strerror(error)}));
    size = sizeof name;
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size);
    port = ntohs(v4.sin_port);
  }

  // --- the thread --------------------------------------------------------------------------------

  void serve() {
    std::vector<pollfd> watched;
    for (;;) {
      watched.assign(1, {wake[0], POLLIN, 0});
      for (const Connection& c : connections)
        watched.push_back({c.socket.get(), static_cast<short>(c.answers() ? POLLOUT : POLLIN), 0});
      const bool has_room = connections.size() < static_cast<std::size_t>(most_connections);
      if (has_room) watched.push_back({listener.get(), POLLIN, 0});
      ::poll(watched.data(), watched.size(), time_left());
      if (watched[0].revents != 0) return;
      for (std::size_t i = connections.size(); i-- > 0;)
        if (watched[1 + i].revents != 0 && !advance(connections[i]))
          connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
      const auto now = Clock::now();
      std::erase_if(connections, [now](const Connection& c) { return now >= c.deadline; });
      if (has_room && watched.back().revents != 0) accept();
    }
  }

  [[nodiscard]] int time_left() const {
    if (connections.empty()) return -1;
    auto first = Clock::time_point::max();
    for (const Connection& c : connections) first = std::min(first, c.deadline);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
    return static_cast<int>(std::max<long long>(left, 0));
  }

  void accept() {
    ServedSocket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() >= 0)
      connections.push_back({std::move(socket), Clock::now() + time_limit});
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  // Returns false at the end of a connection.
  bool advance(Connection& c) {
    if (c.answers()) return write(c);
    std::array<char, 1024> chunk;
    const ssize_t n = ::recv(c.socket.get(), chunk.data(), chunk.size(), 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    if (!c.answer.empty()) return true;  // more than a request, which is not read
    c.request.append(chunk.data(), static_cast<std::size_t>(n));
    const bool is_whole = c.request.find("\r\n\r\n") != std::string::npos ||
                          c.request.find("\n\n") != std::string::npos;
    if (!is_whole && c.request.size() < longest_request) return true;
    c.answer = is_whole ? answer_to(c.request)
                        : page("431 Request Header Fields Too Large", "the request is too long\n");
    return write(c);
  }

  static bool write(Connection& c) {
    const ssize_t n =
        ::send(c.socket.get(), c.answer.data() + c.sent, c.answer.size() - c.sent, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    c.sent += static_cast<std::size_t>(n);
    if (!c.answers()) ::shutdown(c.socket.get(), SHUT_WR);
    return true;
  }

  static std::string page(std::string_view status, std::string_view content,
                          std::string_view more = {}) {
    return concat({"HTTP/1.0 ", status, "\r\nContent-Type: text/plain; version=0.0.4; ",
                   "charset=utf-8\r\nContent-Length: ", content.size(),
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n", more, "\r\n", content});
  }

  [[nodiscard]] std::string answer_to(std::string_view request) const {
    const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    if (first == line.npos || last == first || !line.substr(last + 1).starts_with("HTTP/"))
      return page("400 Bad Request", "this is no request of HTTP\n");
    const std::string_view method = line.substr(0, first);
    std::string_view path = line.substr(first + 1, last - first - 1);
    path = path.substr(0, path.find('?'));
    if (method != "GET" && method != "HEAD")
      return page("405 Method Not Allowed", "only GET and HEAD are served\n",
                  "Allow: GET, HEAD\r\n");
    std::string text;
    try {
      if (path == "/metrics") {
        text = page("200 OK", pages.metrics());
      } else if (path == "/healthz") {
        const std::string ailment = pages.ailment();
        text = ailment.empty() ? page("200 OK", "ok\n")
                               : page("503 Service Unavailable", concat({ailment, "\n"}));
      } else {
        text = page("404 Not Found", "there are /metrics and /healthz\n");
      }
    } catch (const std::exception& error) {  // out of memory, for example
      text = page("500 Internal Server Error", concat({error.what(), "\n"}));
    }
    if (method == "HEAD") text.resize(text.find("\r\n\r\n") + 4);
    return text;
  }

  const Pages pages;
  int wake[2]{-1, -1};
  ServedSocket listener{-1};
  int port = 0;
  std::vector<Connection> connections;
  std::thread thread;
};

LOCKSTEP_INLINE MetricsServer::MetricsServer(const std::string& address, int port, int ports,
                                             Pages pages)
    : impl_(std::make_unique<Impl>(std::move(pages))) {
  impl_->listen(address, port, port == 0 ? 1 : ports);
  sigset_t all, before;  // signals are for the program's own threads
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    impl_->thread = start_thread("metrics", [impl = impl_.get()] { impl->serve(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LOCKSTEP_INLINE MetricsServer::~MetricsServer() {
  const char byte = 0;
  (void)!::write(impl_->wake[1], &byte, 1);
  impl_->thread.join();
}

LOCKSTEP_INLINE int MetricsServer::port() const noexcept { return impl_->port; }

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
