// What differs between Linux and other systems of POSIX, such as macOS.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/core/config.hpp"

// 0: only what POSIX has, which a test does on Linux, too.
#if !defined(LOCKSTEP_LINUX)
#if defined(__linux__)
#define LOCKSTEP_LINUX 1
#else
#define LOCKSTEP_LINUX 0
#endif
#endif

#if LOCKSTEP_LINUX
#include <malloc.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// For send: a connection that is closed gives an error, and no SIGPIPE. (Where the flag is
/// missing, new_socket and accept_socket set the option.)
#if defined(MSG_NOSIGNAL)
inline constexpr int no_signal = MSG_NOSIGNAL;
#else
inline constexpr int no_signal = 0;
#endif

/// For poll: the other side has closed its direction, although there may be more to read before.
/// Without Linux only the end of both directions shows, until all is read.
#if LOCKSTEP_LINUX
inline constexpr short half_closed = POLLRDHUP;
#else
inline constexpr short half_closed = 0;
#endif

/// Whether the other side of a socket has closed it, although there may be more to read before.
/// Without Linux only once all is read.
[[nodiscard]] inline bool is_closed_by_peer(int socket) noexcept {
#if LOCKSTEP_LINUX
  pollfd watched{socket, half_closed, 0};
  return ::poll(&watched, 1, 0) > 0;
#else
  char next = 0;
  const ssize_t n = ::recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
#endif
}

/// A descriptor that no child inherits; it does not block.
inline int private_descriptor(int descriptor) noexcept {
  if (descriptor < 0) return descriptor;
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
#if defined(SO_NOSIGPIPE)
  const int yes = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
  return descriptor;
}

/// ::socket and ::accept, of such a descriptor.
[[nodiscard]] inline int new_socket(int family, int type) noexcept {
#if LOCKSTEP_LINUX
  return ::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
  return private_descriptor(::socket(family, type, 0));
#endif
}
[[nodiscard]] inline int accept_socket(int listener, sockaddr* peer = nullptr,
                                       socklen_t* size = nullptr) noexcept {
#if LOCKSTEP_LINUX
  return ::accept4(listener, peer, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
  return private_descriptor(::accept(listener, peer, size));
#endif
}

/// ::pipe, whose ends no child inherits.
[[nodiscard]] inline int new_pipe(int (&ends)[2]) noexcept {
#if LOCKSTEP_LINUX
  return ::pipe2(ends, O_CLOEXEC);
#else
  return ::pipe(ends);  // and Descriptor::checked does the rest
#endif
}

/// The option of a TCP socket: seconds of silence until the system asks for the other side.
#if defined(TCP_KEEPIDLE)
inline constexpr int keep_alive_idle = TCP_KEEPIDLE;
#else
inline constexpr int keep_alive_idle = TCP_KEEPALIVE;
#endif

/// The path of this program's file; empty where the system does not say.
[[nodiscard]] inline std::string path_of_program() {
  char path[4096];
#if defined(__APPLE__)
  std::uint32_t room = sizeof path;
  return ::_NSGetExecutablePath(path, &room) == 0 ? path : "";
#else
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return {path, static_cast<std::size_t>(size > 0 ? size : 0)};
#endif
}

/// Gives memory that is free within the process back to the system.
inline void trim_memory() noexcept {
#if LOCKSTEP_LINUX && defined(__GLIBC__)
  (void)::malloc_trim(0);
#endif
}

/// When the file was changed.
inline std::int64_t nanoseconds_of_change(const struct stat& status) noexcept {
#if defined(__APPLE__)
  const timespec& time = status.st_mtimespec;
#else
  const timespec& time = status.st_mtim;
#endif
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}}}  // namespace lockstep::detail
