// Threads of the library: an error names their work when they cannot be started, and signals leave
// them alone.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// While one of these lives, threads that this thread starts get no signals but those of their
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

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_no_thread(std::string_view what,
                                                                   const std::system_error& error) {
  throw Error(concat({"cannot start the thread for ", what, ": ", error.code().message(),
                      limits_text(Resource::threads)}));
}

}  // namespace detail

/// std::thread(f). `what` names its work: "replica 1", "reading ahead". Throws Error, which names
/// the limits, when the system has no thread left.
template <class Thread = std::thread, class F>
[[nodiscard]] Thread start_thread(std::string_view what, F&& f) {
  const UnpinnedThread unpinned;  // the new thread may run where the process may
  try {
    return Thread(std::forward<F>(f));
  } catch (const std::system_error& error) {
    detail::throw_no_thread(what, error);
  }
}

}}  // namespace lockstep
