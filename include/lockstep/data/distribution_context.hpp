// Where a replica stands among all.
#pragma once

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The place of a replica among all. Ranks count worker by worker; every worker has the same number
/// of replicas.
struct DistributionContext {
  int num_workers = 1;
  int worker = 0;
  int local_replicas = 1;
  int local_replica = 0;

  [[nodiscard]] constexpr int num_ranks() const noexcept { return num_workers * local_replicas; }
  [[nodiscard]] constexpr int rank() const noexcept {
    return worker * local_replicas + local_replica;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
