// Exceptions of a program's callbacks, with the place where they were thrown.
#pragma once

#include <exception>
#include <string>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Rethrows the exception that is being handled, with the place of the hook in front of its message
/// and the original nested. An Error keeps its exit code, a ConfigurationError or DataError its
/// type. A lost peer, a preemption and an exception without a message stay as they are.
[[noreturn, gnu::cold]] inline void rethrow_from(const Activity& hook) {
  const auto message = [&](const std::exception& error) {
    return concat({to_string(hook), ": ", error.what()});
  };
  try {
    throw;
  } catch (const CollectiveError&) {
    throw;
  } catch (const Preempted&) {
    throw;
  } catch (const ConfigurationError& error) {
    std::throw_with_nested(ConfigurationError(message(error)));
  } catch (const DataError& error) {
    std::throw_with_nested(DataError(message(error)));
  } catch (const Error& error) {
    std::throw_with_nested(Error(message(error), error.exit_code()));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(message(error)));
  }
}

/// Calls f, which calls hooks of `callbacks` at `place`.
inline void call_hooks(HookSite& callbacks, const Activity& place, FunctionRef<void()> f) {
  callbacks.enter(place);
  try {
    f();
  } catch (...) {
    if (callbacks.failed_hook()) rethrow_from(*callbacks.failed_hook());
    throw;
  }
}

/// Calls on_train_abort when an exception ends fit (no other exception may replace it), and on a
/// worker that is no longer the chief.
inline void abort_callbacks(CallbackHooks& callbacks, Training& training) noexcept {
  try {
    callbacks.on_train_abort(training);
  } catch (const std::exception& error) {
    log_warning(std::string("fit: on_train_abort: ") + error.what());
  } catch (...) {
    log_warning("fit: on_train_abort: an exception that is no std::exception");
  }
}

}}}  // namespace lockstep::detail
