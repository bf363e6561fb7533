// Nccl, in programs that link the CMake target lockstep::nccl; else empty.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/nccl/nccl.hpp"
