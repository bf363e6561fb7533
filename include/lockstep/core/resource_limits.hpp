// The limits of the system, for messages about a limit that was reached.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

enum class Resource : std::uint8_t { threads, memory, file_size };

/// The limits that are set for this process, for the end of a message: "; the limits are:
/// RLIMIT_NPROC (ulimit -u) 100, pids.max of the control group 512". Empty when none is.
[[nodiscard, gnu::cold]] std::string limits_text(Resource resource);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/core/resource_limits.ipp"
#endif
