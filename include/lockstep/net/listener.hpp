// Sockets that listen.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/rare_log.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// How many callers may wait to be taken, by default.
inline constexpr int usual_backlog = 1024;

/// Listens at `name`, without blocking; port 0: a free one. No socket, and errno, when that fails.
[[nodiscard, gnu::cold]] inline Descriptor listen_on(const SocketName& name, int backlog) {
  Descriptor socket(new_socket(name.ss_family, SOCK_STREAM));
  if (!socket.is_open()) return socket;
  if (port_of(name) != 0) set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (name.ss_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), plain(name), size_of(name)) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    const int error = errno;
    socket.close();
    errno = error;
  }
  return socket;
}

/// Throws ConfigurationError unless it is an IP address.
[[nodiscard, gnu::cold]] inline SocketName bind_name(const std::string& bind_address, int port) {
  if (const auto name = ip_name(bind_address, port)) return *name;
  throw ConfigurationError(
      concat({"CommunicationOptions::bind_address must be an IP address of this machine, such as "
              "10.0.0.1 or fd00::1, got '",
              bind_address, "'"}));
}

/// Listens on `port` of CommunicationOptions::bind_address; empty: of all interfaces.
[[nodiscard, gnu::cold]] inline Descriptor listen_at(const std::string& bind_address, int port,
                                                     int backlog = usual_backlog) {
  if (!bind_address.empty()) return listen_on(bind_name(bind_address, port), backlog);
  Descriptor both = listen_on(bind_name("::", port), backlog);
  if (both.is_open() || errno == EADDRINUSE) return both;
  return listen_on(bind_name("0.0.0.0", port), backlog);
}

/// The same where peers call this process at `host`: at that if it is of the loopback interface.
[[nodiscard, gnu::cold]] inline Descriptor listen_for(const std::string& host,
                                                      const std::string& bind_address, int port,
                                                      int backlog = usual_backlog) {
  if (!is_loopback(host)) return listen_at(bind_address, port, backlog);
  return listen_at(host == "localhost" ? "127.0.0.1" : host, port, backlog);
}

/// Whether the descriptor is a socket that listens on this port.
[[nodiscard]] inline bool listens_on(int descriptor, int port) noexcept {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 &&
         listening != 0 && port_of(own_name(descriptor)) == port;
}

/// A copy of the socket that the launcher has opened for this process (LOCKSTEP_LISTEN_FD), if it
/// listens on this port; it does not block. (A copy, because the process may listen anew later.)
[[nodiscard, gnu::cold]] inline Descriptor inherited_listener(int port) {
  const char* const text = std::getenv("LOCKSTEP_LISTEN_FD");
  if (text == nullptr) return {};
  Descriptor socket = Descriptor::copy_of(std::atoi(text));
  if (!listens_on(socket.get(), port)) return {};
  ::fcntl(std::atoi(text), F_SETFD, FD_CLOEXEC);  // not for programs that this one starts
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  return socket;
}

/// A process's own port, as messages speak of it.
struct OwnPort {
  int port;
  std::string_view address;  ///< which names the port
  std::string_view before{}, whose{"this worker's"}, kind{"worker"};

  /// "port 2222, which this worker's address b:2222 names"
  [[nodiscard]] std::string name() const {
    return concat({"port ", port, ", which ", whose, " address ", address, " names"});
  }
  /// Why it cannot be listened on.
  [[nodiscard, gnu::cold]] std::string problem(int error) const {
    const std::string taken =
        concat({"; another program, or another ", kind, " with the same task, has it"});
    return concat({before, "cannot listen on ", name(), ": ", system_error_text(error),
                   error == EADDRINUSE ? taken : std::string()});
  }
};

/// Listens on the process's own port: with the launcher's socket, or as listen_for does. A port
/// that is taken may become free, because the process that had this place is about to end, or a
/// connection of another program has it: waits for it, at most `timeout`. Throws
/// ConfigurationError.
[[nodiscard, gnu::cold]] inline Descriptor listen_on_own(const OwnPort& own,
                                                         const std::string& host,
                                                         const std::string& bind_address,
                                                         std::chrono::milliseconds timeout) {
  Descriptor socket = inherited_listener(own.port);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (bool has_said = false; !socket.is_open(); has_said = true) {
    socket = listen_for(host, bind_address, own.port);
    if (socket.is_open()) break;
    if (const int error = errno;
        error != EADDRINUSE || std::chrono::steady_clock::now() >= deadline)
      throw ConfigurationError(own.problem(error));
    if (!has_said)
      log_line(concat(
          {own.before, own.name(), ", is taken; it waits for it for ", duration_text(timeout)}));
    ::poll(nullptr, 0, 100);
  }
  return socket;
}

/// Listens on a free port for other workers, as listen_for does, and keeps it. Returns its number.
/// Throws Error.
[[nodiscard, gnu::cold]] inline int open_free_port(const std::string& host,
                                                   const std::string& bind_address,
                                                   KeptPort& port) {
  const Descriptor socket = listen_for(host, bind_address, 0);
  if (socket.is_open()) port.keep(socket.get());
  if (!socket.is_open() || !port.is_set())
    throw Error(
        concat({"cannot listen on a port for the other workers: ", system_error_text(errno)}));
  return port_of(own_name(socket.get()));
}

/// A socket that listens, and takes calls without waiting.
class ListeningSocket {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ListeningSocket(Descriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int port() const noexcept { return port_of(own_name(socket_.get())); }
  /// For poll; -1 while it rests.
  [[nodiscard]] int descriptor() const noexcept {
    return Clock::now() < rests_until_ ? -1 : socket_.get();
  }
  /// The next caller and its name; its socket does not block, and is not open where there is none.
  /// When the process cannot have another socket, the caller would be announced again and again:
  /// then it rests.
  [[nodiscard]] Descriptor accept(SocketName& peer) {
    if (Clock::now() < rests_until_) return {};
    socklen_t size = sizeof peer;
    Descriptor caller(accept_socket(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &size));
    const int error = caller.is_open() ? 0 : errno;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      rests_until_ = Clock::now() + std::chrono::seconds(1);
      if (!std::exchange(has_complained_, true))
        log_warning(concat({"a call to port ", port(), " cannot be taken: ",
                            system_error_text(error), "; this process tries again each second"}));
    }
    return caller;
  }

 private:
  Descriptor socket_;
  Clock::time_point rests_until_{};
  bool has_complained_ = false;
};

}}}  // namespace lockstep::detail
