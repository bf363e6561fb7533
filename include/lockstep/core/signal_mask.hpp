// Keeps signals away from the library's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// While one of these lives, threads that this thread starts get no signals but those of their own
/// faults, so that SIGINT, SIGTERM and the like interrupt only the program's threads. Signals for
/// this thread that come in the meantime are delivered at the end.
class SignalMask {
 public:
  SignalMask() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;
  ~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
