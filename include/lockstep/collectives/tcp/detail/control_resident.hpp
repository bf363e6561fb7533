// What the control thread of Tcp serves besides the other ranks.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Descriptors that must be watched while training goes on, such as that of the port on which a
/// worker listens. All calls come from the control thread; none may block, throw or take long,
/// because the other ranks get no answer until it returns.
///
/// A rank that has lost its connections to this one calls its port, and closes its own direction at
/// once. It is sent Hello::incarnation, in 8 bytes, without delay, so that it knows this process
/// from a successor. (A port that is held open for a dead process accepts connections, but closes
/// none.)
class ControlResident {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~ControlResident() = default;
  /// Adds the descriptors to watch, and returns the time at which to call serve() in any case
  /// (Clock::time_point::max(): never).
  virtual Clock::time_point watch(std::vector<pollfd>& watched) = 0;
  /// Called after each wait with the descriptors that it has added, in the same order, with their
  /// events.
  virtual void serve(std::span<const pollfd> watched) = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
