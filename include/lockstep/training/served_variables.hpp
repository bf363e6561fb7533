// Where the variables of a model are while fit trains it with parameter servers.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// For what is about to set variables or an optimizer's state: throws Error naming `call` when a
/// fit is training with parameter servers, which would not hear of it.
void check_variables_are_here(AnyStrategy& strategy, std::string_view call);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/served_variables.ipp"
#endif
