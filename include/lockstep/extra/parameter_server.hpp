// ParameterServerStrategy.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/parameter_server/strategy.hpp"
