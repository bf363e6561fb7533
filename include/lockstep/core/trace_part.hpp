// The parts of a training step whose time is recorded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Parts of a training step. Forward and backward are counted for each layer.
enum class TracePart : std::uint8_t {
  input,
  forward,
  loss,
  backward,
  collective,
  optimizer,
  callbacks
};

inline constexpr std::size_t trace_part_count = 7;

}  // namespace lockstep::inline LOCKSTEP_ABI
