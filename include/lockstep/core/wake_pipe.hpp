// What ends another thread's poll().
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A pipe to oneself.
class WakePipe {
 public:
  /// Throws Error when the system refuses.
  WakePipe() {
    if (::pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0)
      throw Error(concat({"cannot make a pipe: ", system_error_text(errno)}));
  }
  WakePipe(const WakePipe&) = delete;
  WakePipe& operator=(const WakePipe&) = delete;
  ~WakePipe() {
    for (const int end : ends_) ::close(end);
  }

  /// Is readable from wake() to drain().
  [[nodiscard]] int descriptor() const noexcept { return ends_[0]; }
  void wake() noexcept {
    const char byte = 0;
    (void)!::write(ends_[1], &byte, 1);
  }
  void drain() noexcept {
    char bytes[16];
    while (::read(ends_[0], bytes, sizeof bytes) > 0) {
    }
  }

 private:
  int ends_[2];
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
