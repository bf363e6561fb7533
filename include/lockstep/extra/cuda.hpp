// Models that a GPU computes: On and Cuda.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/cuda/device.hpp"
#include "lockstep/extra/cuda/on.hpp"
