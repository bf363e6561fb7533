// What a model takes from a dataset.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a model takes: the shape of a sample, and how many target values the loss wants for it (0:
/// none are read).
struct DataSizes {
  std::span<const std::size_t> input;
  std::size_t targets = 0;
  std::string_view loss = {};           ///< its name
  std::string_view target_advice = {};  ///< what to do if the targets do not fit; may be empty
  bool has_several_losses = false;      ///< each of a part of the targets
  std::size_t positions = 1;            ///< rows of a sample, each of which may have a weight
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
