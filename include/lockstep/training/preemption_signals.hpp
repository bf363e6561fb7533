// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a request to save and to leave.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// While one of these lives, the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is only noted; a further
/// one, a second later or more, ends the process at once, with exit code 130 (SIGINT) or 143.
/// Within that second, further signals count as the first one: a Ctrl-C under `timeout`, for
/// example, comes twice. Signals that the program ignores stay ignored: SIGINT in a background job
/// of a shell, SIGHUP under nohup. SIGUSR1, which Slurm sends before a job's time is over, is left
/// to a program that has a handler of its own for it.
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
  /// The signal that asks for this exit code, by name: the one that has come here, or, where
  /// another process got it, SIGINT or SIGTERM.
  [[nodiscard]] const char* name(ExitCode code) const noexcept;
  /// The program leaves because of the signal, which the former handlers then do not get.
  void answered() noexcept;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/preemption_signals.ipp"
#endif
