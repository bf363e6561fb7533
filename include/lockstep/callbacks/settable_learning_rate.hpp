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
void require_settable_learning_rate(std::string_view callback, Training& training);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/settable_learning_rate.ipp"
#endif
