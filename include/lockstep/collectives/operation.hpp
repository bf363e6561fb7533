// The collective operations, and how they combine numbers.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// How all_reduce combines elements.
enum class ReduceOp : std::uint8_t { sum, max };

/// Goes along with each message, so that ranks which are out of step notice.
enum class Operation : std::uint8_t {
  none,
  all_reduce,
  broadcast,
  all_gather,
  barrier,
  reduce_scatter,
  reduce_scatter_all_gather
};

[[nodiscard]] constexpr const char* to_string(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::broadcast:
      return "broadcast";
    case Operation::all_gather:
      return "all_gather";
    case Operation::barrier:
      return "barrier";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::reduce_scatter_all_gather:
      return "reduce_scatter_all_gather";
    case Operation::none:
      break;
  }
  return "exchange";
}

namespace detail {

/// "in all_reduce"
[[nodiscard]] constexpr const char* in_operation(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce:
      return "in all_reduce";
    case Operation::broadcast:
      return "in broadcast";
    case Operation::all_gather:
      return "in all_gather";
    case Operation::barrier:
      return "in barrier";
    case Operation::reduce_scatter:
      return "in reduce_scatter";
    case Operation::reduce_scatter_all_gather:
      return "in reduce_scatter_all_gather";
    case Operation::none:
      break;
  }
  return "in exchange";
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
