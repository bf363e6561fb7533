// BadTarget: the error of a loss that cannot use a target.
#pragma once

#include "lockstep/core/bad_sample.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What a loss throws: row number of the batch, and what is wrong with its target.
using BadTarget = BadSample;

}  // namespace lockstep::inline LOCKSTEP_ABI
