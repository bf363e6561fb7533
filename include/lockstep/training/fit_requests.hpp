// What a worker asks of all workers while it trains: to stop, to compare replicas, to leave.
#pragma once

#include <optional>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/status_block.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// While one of these lives, the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is only noted; a further
/// one, a second later or more, ends the process at once, with exit code 130 (SIGINT) or 143.
/// Within that second, further signals count as the first one: a Ctrl-C under `timeout`, for
/// example, comes twice. Signals that the program ignores stay ignored: SIGINT in a background job
/// of a shell, SIGHUP under nohup. SIGUSR1, which Slurm sends before a job's time is over, is left
/// to a program that has its own handler for it.
///
/// The last one to be destroyed restores the former handlers, and a signal that was not answered is
/// then delivered to them.
class PreemptionSignals {
 public:
  PreemptionSignals();
  PreemptionSignals(const PreemptionSignals&) = delete;
  PreemptionSignals& operator=(const PreemptionSignals&) = delete;
  ~PreemptionSignals();

  /// The exit code for the signal that was received; success when none was.
  [[nodiscard]] ExitCode received() const noexcept;
  /// The signal that asks for this exit code, by name: the one that was received here, or, where
  /// another process got it, SIGINT or SIGTERM.
  [[nodiscard]] const char* name(ExitCode code) const noexcept;
  /// The program leaves because of the signal, so that the former handlers do not get it.
  void answered() noexcept;
};

/// The requests of this worker's callbacks, and of the signals that it gets. They travel in the
/// status block of the next step.
class FitRequests {
 public:
  void stop() noexcept { stop_ = true; }
  /// Asks for a comparison of the replicas after the next step.
  void verify(bool wanted) noexcept { verify_ = wanted; }
  /// Throws ConfigurationError when the code is not one of preemption.
  void preempt(ExitCode code) {
    if (code != ExitCode::interrupted && code != ExitCode::terminated)
      throw ConfigurationError(
          concat({"request_preemption: the exit code must be ExitCode::interrupted (130) or "
                  "ExitCode::terminated (143), got ",
                  static_cast<int>(code)}));
    preemption_ = code;
  }

  void preempt_on_signals() {
    if (!signals_) signals_.emplace();
  }
  /// From now on a signal does what it did before.
  void leave_signals() {
    takes_signals_again_ = takes_signals_again_ || signals_.has_value();
    signals_.reset();
  }
  void take_signals_again() {
    if (takes_signals_again_) preempt_on_signals();
  }
  /// The workers leave because of a signal that one of them has received.
  void answer_signals() noexcept {
    if (signals_) signals_->answered();
  }
  /// The signal that asks for this exit code.
  [[nodiscard]] const char* signal_name(ExitCode code) const noexcept {
    return signals_ ? signals_->name(code) : code == ExitCode::interrupted ? "SIGINT" : "SIGTERM";
  }

  /// What is asked in the next step. A callback's request takes precedence over a signal.
  [[nodiscard]] Requests next() const {
    const bool by_signal = signals_ && preemption_ == ExitCode::success;
    return {.stop = stop_,
            .preemption = by_signal ? signals_->received() : preemption_,
            .verify = verify_};
  }

 private:
  bool stop_ = false;
  bool verify_ = false;
  ExitCode preemption_ = ExitCode::success;
  std::optional<PreemptionSignals> signals_;
  bool takes_signals_again_ = false;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/fit_requests.ipp"
#endif
