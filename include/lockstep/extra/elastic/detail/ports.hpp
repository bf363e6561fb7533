// The ports of a Membership: one for forming worlds, and one for each world.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/kept_port.hpp"
#include "lockstep/collectives/meeting/inherited_listener.hpp"
#include "lockstep/collectives/meeting/socket.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Listens at the worker's address of the cluster. The process that had this place may be about to
/// end, and is waited for.
[[nodiscard, gnu::cold]] inline MeetingSocket listen_for_formation(
    const std::string& address, const CommunicationOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Address own = parse_address(address);
  MeetingSocket socket = inherited_listener(own.port);
  const auto deadline = Clock::now() + options.startup_timeout;
  while (!socket.is_open()) {
    socket = listen_for_meeting(own.host, options.bind_address, own.port);
    if (socket.is_open() || errno != EADDRINUSE || Clock::now() >= deadline) break;
    ::poll(nullptr, 0, 100);
  }
  if (!socket.is_open())
    throw ConfigurationError(concat(
        {"cannot listen on port ", own.port, ", which this worker's address ", address,
         " names: ", system_error_text(errno),
         errno == EADDRINUSE ? "; another program, or another worker with the same task, has it"
                             : ""}));
  return socket;
}

/// Takes the calls that come to it.
class FormationListener {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FormationListener(MeetingSocket socket) : socket_(std::move(socket)) {}

  /// For poll; -1 while it rests.
  [[nodiscard]] int descriptor() const noexcept {
    return Clock::now() < rests_until_ ? -1 : socket_.get();
  }
  /// The next caller and its address; not open where there is none. When the process cannot have
  /// another socket, the caller would be announced again and again: then it rests.
  [[nodiscard]] MeetingSocket accept(SocketName& peer) {
    if (Clock::now() < rests_until_) return {};
    socklen_t size = sizeof peer;
    MeetingSocket caller(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                                   SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int error = caller.is_open() ? 0 : errno;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      rests_until_ = Clock::now() + std::chrono::seconds(1);
      if (!std::exchange(has_complained_, true))
        log_warning(concat({"the call of another worker to port ", port_of(own_name(socket_.get())),
                            " cannot be taken: ", system_error_text(error),
                            "; this worker tries again each second"}));
    }
    return caller;
  }

 private:
  MeetingSocket socket_;
  Clock::time_point rests_until_{};
  bool has_complained_ = false;
};

/// Opens a port for the members of the next world, kept in `port`, and returns its "host:port".
/// Each world has ports of its own: a process that still calls members of an older one reaches
/// none.
[[nodiscard, gnu::cold]] inline std::string open_world_port(const std::string& address,
                                                            const CommunicationOptions& options,
                                                            KeptPort& port) {
  const auto socket = listen_for_meeting(parse_address(address).host, options.bind_address, 0);
  if (socket.is_open()) port.keep(socket.get());
  if (!socket.is_open() || !port.is_set())
    throw Error(
        concat({"cannot listen on a port for the other workers: ", system_error_text(errno)}));
  return concat({address.substr(0, address.rfind(':') + 1), port_of(own_name(socket.get()))});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
