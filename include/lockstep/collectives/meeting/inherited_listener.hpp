// The socket that the launcher has opened for a process.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <cstdlib>

#include "lockstep/collectives/meeting/socket.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The one that LOCKSTEP_LISTEN_FD names, if it listens on this port; it does not block.
[[nodiscard, gnu::cold]] inline MeetingSocket inherited_listener(int port) {
  const char* const text = std::getenv("LOCKSTEP_LISTEN_FD");
  if (text == nullptr) return {};
  MeetingSocket socket(::fcntl(std::atoi(text), F_DUPFD_CLOEXEC, 0));
  int listening = 0;
  socklen_t size = sizeof listening;
  if (!socket.is_open() ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 ||
      listening == 0 || port_of(own_name(socket.get())) != port)
    return {};
  ::fcntl(std::atoi(text), F_SETFD, FD_CLOEXEC);  // not for programs that this one starts
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  return socket;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
