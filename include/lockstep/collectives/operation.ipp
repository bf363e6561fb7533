#pragma once

#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string to_string(const CollectiveCall& call) {
  using enum Operation;
  const bool reduces = call.operation == all_reduce || call.operation == reduce_scatter ||
                       call.operation == reduce_scatter_all_gather;
  return concat(
      {to_string(call.operation), call.op == ReduceOp::max ? "(max)" : "", reduces ? " of " : "",
       reduces ? to_string(call.type) : "",
       call.operation == broadcast ? concat({" from rank ", call.root}) : "",
       call.status_count != 0 ? concat({" and ", call.status_count, " status values"}) : "", ", ",
       call.bytes, " bytes"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
