// Whether a callback may set the learning rate.
#pragma once

#include <string_view>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws ConfigurationError when training refuses to set the learning rate, so that a callback
/// fails before the first step, and not when it has something to change.
inline void require_settable_learning_rate(std::string_view callback, Training& training) {
  try {
    training.set_learning_rate(training.learning_rate());
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(concat({callback, ": ", error.what()}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
