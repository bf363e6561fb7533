// What one replica of a process does for all of them.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Called by every replica of the process. When all have come, the first one calls f(), and the
/// others return when f has. With Replica's optional team_lead, f may use models of the same
/// strategy.
template <Replica R, class F>
void team_lead(R& replica, F f) {
  if constexpr (requires { replica.team_lead(f); }) {
    replica.team_lead(f);
  } else {
    replica.team_barrier();
    if (replica.local_rank() == 0) f();
    replica.team_barrier();
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
