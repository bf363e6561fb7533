// File descriptors that close themselves.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Owns a file descriptor, which no child inherits unless it is told to.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() { close(); }

  /// Throws Error, "cannot <what>: ...", when the system call that gave `descriptor` has failed.
  static Descriptor checked(int descriptor, const char* what) {
    if (descriptor < 0) throw Error(concat({"cannot ", what, ": ", system_error_text(errno)}));
    // 0, 1 and 2 will be replaced in the child, and may be free in a program that was started
    // without them.
    if (descriptor <= 2) {
      const Descriptor low(descriptor);
      return checked(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3), what);
    }
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return Descriptor(descriptor);
  }
  /// Another descriptor of the same file or socket; none if this process may open no more.
  [[nodiscard]] static Descriptor copy_of(int descriptor) noexcept {
    return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  }

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  void close() noexcept {
    if (is_open()) ::close(release());
  }
  /// It is the caller's from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// Reading does not block.
struct Pipe {
  Descriptor read;
  Descriptor write;

  /// Throws Error when the system refuses.
  Pipe() {
    int ends[2] = {-1, -1};
    const bool made = new_pipe(ends) == 0;
    read = Descriptor::checked(made ? ends[0] : -1, "make a pipe");
    write = Descriptor::checked(ends[1], "make a pipe");
    ::fcntl(read.get(), F_SETFL, O_NONBLOCK);
  }
};

/// A pipe to oneself: wakes a thread that polls.
class WakePipe {
 public:
  WakePipe() { ::fcntl(ends_.write.get(), F_SETFL, O_NONBLOCK); }

  /// Is readable from wake() to drain().
  [[nodiscard]] int descriptor() const noexcept { return ends_.read.get(); }
  void wake() noexcept {
    const char byte = 0;
    (void)!::write(ends_.write.get(), &byte, 1);
  }
  void drain() noexcept {
    char bytes[16];
    while (::read(ends_.read.get(), bytes, sizeof bytes) > 0) {
    }
  }

 private:
  Pipe ends_;
};

}  // namespace detail

/// Keeps a listening socket for a worker that may lose its peers and meet them again: no other
/// program can get the port in between. Not thread-safe.
class KeptPort {
 public:
  KeptPort() = default;
  KeptPort(const KeptPort&) = delete;
  KeptPort& operator=(const KeptPort&) = delete;

  [[nodiscard]] bool is_set() const noexcept { return kept_.is_open(); }
  /// Keeps a copy of a listening socket, in place of an earlier one. Keeps nothing if this process
  /// may open no more files.
  void keep(int listening) noexcept { kept_ = detail::Descriptor::copy_of(listening); }
  /// Another copy, which is the caller's; -1 when there is none.
  [[nodiscard]] int copy() const noexcept {
    return is_set() ? detail::Descriptor::copy_of(kept_.get()).release() : -1;
  }

 private:
  detail::Descriptor kept_;
};

}}  // namespace lockstep
