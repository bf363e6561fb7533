// The socket on which a worker listens, kept between two meetings of the cluster.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Keeps a listening socket for a worker that may lose its peers and meet them again: no other
/// program can get the port in between. Not thread-safe.
class KeptPort {
 public:
  KeptPort() = default;
  KeptPort(const KeptPort&) = delete;
  KeptPort& operator=(const KeptPort&) = delete;
  ~KeptPort() { release(); }

  [[nodiscard]] bool is_set() const noexcept { return descriptor_ >= 0; }

  /// Keeps a copy of a listening socket, in place of an earlier one. Keeps nothing if this process
  /// may open no more files.
  void keep(int listening) noexcept {
    release();
    descriptor_ = duplicate(listening);
  }
  /// Another copy, which is the caller's; -1 when there is none.
  [[nodiscard]] int copy() const noexcept { return is_set() ? duplicate(descriptor_) : -1; }

 private:
  static int duplicate(int descriptor) noexcept { return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }
  void release() noexcept {
    if (is_set()) ::close(descriptor_);
    descriptor_ = -1;
  }

  int descriptor_ = -1;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
