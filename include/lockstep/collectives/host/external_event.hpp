// What a rank waits for that does not come over a transport.
#pragma once

#include <chrono>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What a rank waits for that does not come over a transport.
class ExternalEvent {
 public:
  [[nodiscard]] virtual bool has_come() = 0;
  /// Returns when it has come, or after `most`, or earlier.
  virtual void sleep(std::chrono::milliseconds most) = 0;

 protected:
  ~ExternalEvent() = default;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
