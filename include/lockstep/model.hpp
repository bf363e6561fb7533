// compile, Model and a program's loops.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/model/model.hpp"
#include "lockstep/model/own_loop.hpp"
