// TensorBoard: the callback, and event files.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/tensorboard/tensorboard.hpp"
