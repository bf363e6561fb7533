// Threads whose work an error names when they cannot be started.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/cores.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI
