#pragma once

#include "lockstep/callbacks/settable_learning_rate.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void require_settable_learning_rate(std::string_view callback, Training& training) {
  try {
    training.set_learning_rate(training.learning_rate());
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(concat({callback, ": ", error.what()}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
