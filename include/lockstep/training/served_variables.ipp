#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/parameter_server/parameter_servers.hpp"
#include "lockstep/training/served_variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void check_variables_are_here(AnyStrategy& strategy, std::string_view call) {
  const ParameterServers* const servers = strategy.parameter_servers();
  if (servers == nullptr || !servers->is_in_fit) return;
  throw Error(concat({call,
                      ": while fit trains with parameter servers, the variables are theirs: set "
                      "them before the fit, in on_train_end, or after it"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
