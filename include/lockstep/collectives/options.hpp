// Options of the communication between ranks.
#pragma once

#include <chrono>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct CommunicationOptions {
  /// How long an operation waits without a single byte of progress before the rank that it waits for counts as lost.
  /// It must exceed what a rank may do between two operations: a step, or a slow callback.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// How long the workers may take to find each other.
  std::chrono::milliseconds startup_timeout = std::chrono::minutes(5);

  /// Throws ConfigurationError when an option makes no sense.
  void validate() const {
    check("timeout", timeout);
    check("startup_timeout", startup_timeout);
  }

 private:
  [[gnu::cold]] static void check(const char* name, std::chrono::milliseconds value) {
    if (value.count() > 0) return;
    throw ConfigurationError(
        concat({"CommunicationOptions::", name, " must be at least 1 ms, got ", value.count(), " ms"}));
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
