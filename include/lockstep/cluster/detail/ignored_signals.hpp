// Signals that end the process by default, although a system call can report the same as an error.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// From construction until restore(), a write to a reader that has gone (SIGPIPE) or beyond the
/// limit of a file's size (SIGXFSZ) fails, instead of ending the process and its training. Handlers
/// that the program has set stay.
class IgnoredSignals {
 public:
  IgnoredSignals() noexcept {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      ::sigaction(signals[i], nullptr, &former_[i]);
      if (former_[i].sa_handler == SIG_DFL) ::sigaction(signals[i], &ignore, nullptr);
    }
  }

  /// May be called in a forked child.
  void restore() const noexcept {
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (former_[i].sa_handler == SIG_DFL) ::sigaction(signals[i], &former_[i], nullptr);
  }

 private:
  static constexpr std::array signals{SIGPIPE, SIGXFSZ};
  std::array<struct sigaction, signals.size()> former_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
