// run: the body of main(), with options for workers, servers and restarts, and exceptions that
// become messages and exit codes.
#pragma once

#include <type_traits>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

int run(int argc, char** argv, int (*function)(void* context, int argc, char** argv),
        void* context);

template <class F>
int call_main(F& f, [[maybe_unused]] int argc, [[maybe_unused]] char** argv) {
  if constexpr (std::is_invocable_v<F&, int, char**>) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, int, char**>>)
      return f(argc, argv), 0;
    else
      return static_cast<int>(f(argc, argv));
  } else {
    static_assert(std::is_invocable_v<F&>,
                  "lockstep::run: the function must be callable as f() or as f(argc, argv), and "
                  "return int or nothing");
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>)
      return f(), 0;
    else
      return static_cast<int>(f());
  }
}

}  // namespace detail

/// Runs a program: `return lockstep::run(argc, argv, [] { ... });`
///
/// With `--workers N` (or `--workers=N`) on the command line, before a `--` if there is one, starts
/// N copies of the program as a cluster on this machine (see launch_workers); in each copy, and in
/// a program without that option, calls f() or f(argc, argv), with `--workers` left out of argv.
/// Returns what f returns (0 for void). Beside `--workers`, `--restarts M` is the launcher's too:
/// see LaunchOptions::restarts; and so is `--servers K`, for K parameter servers. Each without
/// `--workers` is an error. `--hosts a:2,b:2`, or `--hostfile FILE` (see parse_host_file), does the
/// same on other hosts, by ssh, or by `--ssh COMMAND`: see LaunchOptions::hosts.
///
/// An exception ends the program with "error: <what>" on stderr and Error::exit_code(): 2 for a
/// ConfigurationError, 138 for a lost worker; 1 for anything else. Preempted is no error: it ends
/// the program with 130 or 143; nor is Served, with 0. If f returns 0, but not all output could be
/// written to stdout (a full disk, a reader that has gone), the program ends with 1.
///
/// From then on SIGPIPE and SIGXFSZ are ignored, unless the program has handlers for them: the
/// write fails, and training goes on. A closed standard stream is opened on /dev/null, so that no
/// other file gets the program's output.
template <class F>
[[nodiscard]] int run(int argc, char** argv, F&& f) {
  auto call = [&f](int count, char** arguments) { return detail::call_main(f, count, arguments); };
  using Call = decltype(call);
  return detail::run(
      argc, argv,
      [](void* context, int count, char** arguments) {
        return (*static_cast<Call*>(context))(count, arguments);
      },
      &call);
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/run.ipp"
#endif
