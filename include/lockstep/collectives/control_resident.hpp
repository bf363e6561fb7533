// What the control thread of Tcp serves besides the other ranks.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Descriptors that somebody must look at while training goes on, such as the port that a worker listens on. All calls come from
/// the control thread; none may block or throw, and none is long: until it returns, the other ranks get no answer.
///
/// Of the port: a rank that has lost its connections to this one calls it, and closes its own direction at once. The process
/// lives if such a connection is closed without delay (a port that is held open for a process that has died accepts, but
/// closes nothing).
class ControlResident {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~ControlResident() = default;
  /// Adds what it wants to be watched, and returns when serve() is to be called in any case (Clock::time_point::max(): never).
  virtual Clock::time_point watch(std::vector<pollfd>& watched) = 0;
  /// Looks at what it has added, after each wait: the same, in the same order, with what has happened to it.
  virtual void serve(std::span<const pollfd> watched) = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
