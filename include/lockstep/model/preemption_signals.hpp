// SIGINT, SIGTERM and SIGHUP as a request to save and to leave.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// While one of these lives, the first SIGINT, SIGTERM or SIGHUP is only noted, and one that comes
/// a second later, or after that, ends the process at once, with exit code 130 (SIGINT) or 143.
/// Those that come within the second are the first one once more: a Ctrl-C under `timeout`, for
/// example, comes twice. Signals that the program ignores stay ignored: SIGINT in a background job
/// of a shell, SIGHUP under nohup.
///
/// The last one to go restores the former handlers; a signal that nobody has answered is then
/// delivered to them.
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
