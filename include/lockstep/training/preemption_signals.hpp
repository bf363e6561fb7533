// SIGINT, SIGTERM and SIGHUP as a request to save and to leave.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// While one of these lives, the first SIGINT, SIGTERM or SIGHUP is only noted; a further one, a
/// second later or more, ends the process at once, with exit code 130 (SIGINT) or 143. Within that
/// second, further signals count as the first one: a Ctrl-C under `timeout`, for example, comes
/// twice. Signals that the program ignores stay ignored: SIGINT in a background job of a shell,
/// SIGHUP under nohup.
///
/// The last one to go restores the former handlers, and a signal that was not answered is then
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
#include "lockstep/training/preemption_signals.ipp"
#endif
