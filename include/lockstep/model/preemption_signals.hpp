// SIGINT and SIGTERM as a request to save and to leave.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// While one of these lives, the first SIGINT or SIGTERM is only noted, and the second one ends the process at once, with exit
/// code 130 or 143. Signals that the program ignores (a background job of a shell ignores SIGINT) stay ignored.
///
/// The last one to go restores the former handlers; a signal that nobody has answered is then delivered to them.
class PreemptionSignals {
 public:
  PreemptionSignals();
  PreemptionSignals(const PreemptionSignals&) = delete;
  PreemptionSignals& operator=(const PreemptionSignals&) = delete;
  ~PreemptionSignals();

  /// The exit code for the signal that has come; success when none has.
  [[nodiscard]] ExitCode received() const noexcept;
  /// The program leaves because of the signal, which is delivered to nobody else.
  void answered() noexcept;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/model/preemption_signals.ipp"
#endif
