// The limits of the system, for messages about a limit that was reached.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

enum class Resource : std::uint8_t { threads, memory, file_size };

/// The limits that are set for this process, for the end of a message: "; the limits are:
/// RLIMIT_NPROC (ulimit -u) 100, pids.max of the control group 512". Empty when none is.
[[nodiscard, gnu::cold]] std::string limits_text(Resource resource);

/// What the error of a system call means; of too many open files also how many there may be, and
/// what raises that.
[[nodiscard, gnu::cold]] std::string system_error_text(int code);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/resource_limits.ipp"
#endif
