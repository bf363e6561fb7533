// Log lines on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

enum class LogLevel : std::uint8_t { info, warning, error };

namespace detail {

/// How a structured line begins.
inline constexpr std::string_view structured_log_begin = "{\"time\":\"";

/// Whether the environment variable LOCKSTEP_LOG is "json", at the first call.
[[nodiscard]] bool logs_are_structured() noexcept;

/// Throws ConfigurationError unless LOCKSTEP_LOG is "text", "json", empty or not set. Asked by
/// `run` and `compile`, as a line of the log cannot throw.
void check_log_form();

/// The process that writes these structured lines, as they name it.
struct LogPlace {
  std::string task{};  ///< "worker", "ps", ..., or "launcher"; empty: not known
  int index = -1;      ///< among the processes of that task; -1: none
  int rank = -1;       ///< among those that train; -1: none
  std::string run{};   ///< of all processes of a job; empty: not known
};

/// The task of a process that starts the others.
inline constexpr std::string_view log_task_of_launcher = "launcher";

/// The run's name is `place.run`, or that in the environment variable LOCKSTEP_RUN_ID.
void set_log_place(LogPlace place);

/// What finds the place at the first structured line, if nothing has been set until then.
void find_log_place_by(LogPlace (*find)()) noexcept;

/// The name that a user has given to the run (LOCKSTEP_RUN_ID), or empty.
[[nodiscard]] std::string given_run_name();

/// {"time":"2026-11-22T18:30:00.123Z","level":"info","task":"worker","index":1,"rank":1,"run":"7",
/// "message":"..."} and a new line. What is not known, or does not exist, is left out.
[[nodiscard]] std::string structured_log_line(std::string_view text,
                                              LogLevel level = LogLevel::info);

}  // namespace detail

/// Writes "lockstep: <text>" and a new line to stderr, in one piece, so that the lines of several
/// threads and processes do not mix; with LOCKSTEP_LOG=json in the environment, a structured line,
/// which alone shows the level.
void log_line(std::string_view text, LogLevel level = LogLevel::info) noexcept;

/// The same for a warning, as which a line of plain text shows it too: "lockstep: warning: <text>".
void log_warning(std::string_view text) noexcept;

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/log.ipp"
#endif
