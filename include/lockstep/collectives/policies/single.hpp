// The collective of one rank.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// One rank, alone: a sum over one rank is the rank's value.
///
/// Used by one thread.
class Single : public AnyCollective {
 public:
  Single() noexcept : AnyCollective(0, 1, {}) {}

  void all_reduce(NumberSpan, ReduceOp = ReduceOp::sum) override {}
  void all_reduce(std::span<double>, NumberSpan) override {}
  void broadcast(std::span<std::byte>, int) override {}
  /// Throws Error when the lengths differ.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    detail::check_lengths(mine.size(), all.size(), 1);
    if (!mine.empty()) std::memmove(all.data(), mine.data(), mine.size());
  }
  void barrier() override {}
  void abort(std::string_view, ExitCode = ExitCode::failure) noexcept override {}
};

}}  // namespace lockstep
