// The collective of one rank.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// One rank, alone: a sum over one rank is the rank's value.
///
/// Used by one thread.
class Single {
 public:
  [[nodiscard]] int rank() const noexcept { return 0; }
  [[nodiscard]] int size() const noexcept { return 1; }

  void all_reduce(NumberSpan, ReduceOp = ReduceOp::sum) noexcept {}
  void all_reduce(std::span<double>, NumberSpan) noexcept {}
  void broadcast(std::span<std::byte>, int) noexcept {}
  /// Throws Error when the lengths differ.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    detail::check_lengths(mine.size(), all.size(), 1);
    if (!mine.empty()) std::memmove(all.data(), mine.data(), mine.size());
  }
  void barrier() noexcept {}
  void abort(std::string_view, ExitCode = ExitCode::failure) noexcept {}
};

}}  // namespace lockstep
