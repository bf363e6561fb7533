// What all ranks must agree on when they call a collective operation.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A rank's call, as far as it must be the same on all ranks.
struct CollectiveCall {
  Operation operation = Operation::none;
  DataType type = DataType::float32;  ///< of what is reduced
  ReduceOp op = ReduceOp::sum;
  std::int32_t root = 0;
  std::uint64_t bytes = 0;
  std::uint64_t status_count = 0;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

/// "all_reduce(max) of float and 3 status values, 16 bytes"
[[nodiscard, gnu::cold]] std::string to_string(const CollectiveCall& call);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/collective_call.ipp"
#endif
