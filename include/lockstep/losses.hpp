// Losses.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/ctc.hpp"
#include "lockstep/losses/hinges.hpp"
#include "lockstep/losses/losses.hpp"
#include "lockstep/losses/regression.hpp"
