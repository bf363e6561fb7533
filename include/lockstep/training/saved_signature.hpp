// Whether a saved training state belongs to this program.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Compares the signature of a saved state (Compiled::signature) with this program's. The
/// optimizer's learning rate may differ, because the state has the one that was in force, which is
/// restored. Throws ConfigurationError naming the first other difference.
void check_signature(std::string_view saved, std::string_view mine);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/training/saved_signature.ipp"
#endif
