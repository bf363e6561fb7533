// The collective operations, and what all ranks must agree on when they call one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

[[nodiscard]] constexpr const char* to_string(Operation operation) noexcept {
  return detail::in_operation(operation) + std::string_view("in ").size();
}

namespace detail {

[[gnu::cold, noreturn]] inline void refuse_root(int root, int size) {
  throw Error(concat({"broadcast: there is no rank ", root, " among ", size}));
}
[[gnu::cold, noreturn]] inline void refuse_lengths(std::size_t mine, std::size_t all, int size) {
  throw Error(
      concat({"all_gather: ", size, " ranks of ", mine, " bytes do not fill ", all, " bytes"}));
}

/// Throws Error unless root is one of `size` ranks.
inline void check_root(int root, int size) {
  if (root < 0 || root >= size) refuse_root(root, size);
}

/// Throws Error unless `size` ranks of `mine` bytes fill `all` bytes.
inline void check_lengths(std::size_t mine, std::size_t all, int size) {
  if (all != mine * static_cast<std::size_t>(size)) refuse_lengths(mine, all, size);
}

/// The part of a rank's call that must be the same on all ranks.
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
[[nodiscard, gnu::cold]] inline std::string to_string(const CollectiveCall& call) {
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

}  // namespace detail

}}  // namespace lockstep
