// What takes part in a step on one replica.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// References, for the time of a call of fit, evaluate or predict.
template <class T>
struct Parts {
  const Program<T>& program;
  Variables<T>& variables;  ///< shared by the replicas of the process
  Workspace<T>& workspace;
  AnyReplica& replica;
};

}}}  // namespace lockstep::detail
