// Training with parameter servers: what fit is on a worker, and on a server.
#pragma once

#include <memory>

#include "lockstep/core/config.hpp"
#include "lockstep/training/fit_part.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;

/// Those of a trainer whose strategy has parameter servers; nullptr for others.
template <class T>
[[nodiscard]] std::unique_ptr<RemoteVariables<T>> remote_variables_of(Trainer<T>& trainer);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
