// Who writes the structured lines of the log, as a cluster or the environment says it.
#pragma once

#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// This process's task, as TF_CONFIG names it, and its rank. The run has the name of the launcher's
/// job; where all addresses are listed, the chief's, which is the same in all processes.
[[nodiscard]] LogPlace log_place_of(const Cluster& cluster);

/// The same before the program has asked for its cluster; nothing where TF_CONFIG or the launcher's
/// variables cannot be understood, which is an error when the program asks.
[[nodiscard]] LogPlace log_place_from(const Environment& environment);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/log_place.ipp"
#endif
