// What compile may be told besides the parts of a model.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/core/config.hpp"
#include "lockstep/step/synchronization.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What compile may be told beyond what is a type.
struct CompileOptions {
  /// For initial values, shuffling and everything else that is random. Default: drawn by the chief.
  /// The chief's is used on all workers.
  std::optional<std::uint64_t> seed = std::nullopt;
  /// When the ranks communicate. Default: in every step. Over a slow network, rounds of steps
  /// without communication: LocalSGD{.steps = 16}, or DiLoCo{.steps = 500}. Equal on all workers,
  /// and part of what a saved state must have in common with the program.
  Synchronization synchronization = {};
};

}  // namespace lockstep::inline LOCKSTEP_ABI
