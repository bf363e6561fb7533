// File descriptors that close themselves.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Owns a file descriptor, which no child inherits unless it is told to.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
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

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  void close() noexcept {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_ = -1;
};

struct Pipe {
  Descriptor read;
  Descriptor write;

  Pipe() {
    int ends[2] = {-1, -1};
    const bool made = ::pipe(ends) == 0;
    read = Descriptor::checked(made ? ends[0] : -1, "make a pipe");
    write = Descriptor::checked(ends[1], "make a pipe");
    ::fcntl(read.get(), F_SETFL, O_NONBLOCK);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
