// Log lines on standard error.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// How a structured line begins.
inline constexpr std::string_view structured_log_begin = "{\"time\":\"";

/// Whether the environment variable LOCKSTEP_LOG is "json", at the first call.
[[nodiscard]] bool logs_are_structured() noexcept;

/// Throws ConfigurationError unless LOCKSTEP_LOG is "text", "json", empty or not set. Asked by
/// `run` and `compile`, as a line of the log cannot throw.
void check_log_form();

/// Says which worker writes this process's structured lines: its rank, and the name of the run, for
/// which the environment variable LOCKSTEP_RUN_ID stands if it is set.
void set_log_place(int rank, std::string_view run);

/// The line for a text, which may begin with its level, "warning: " or "error: ":
/// {"time":"2026-11-22T18:30:00.123Z","level":"info","rank":1,"run":"7","message":"..."} and a new
/// line. Rank and run are left out while they are not known.
[[nodiscard]] std::string structured_log_line(std::string_view text);

}  // namespace detail

/// Writes "lockstep: <text>" and a new line to stderr, in one piece, so that the lines of several
/// threads and processes do not mix; with LOCKSTEP_LOG=json in the environment, a structured line.
void log_line(std::string_view text) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/core/log.ipp"
#endif
