// A trained model as plain C++17: export_header.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/export_header/export_header.hpp"
