// Values between pixels.
#pragma once

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How new pixels get their values: nearest repeats pixels, bilinear interpolates between their
/// centres.
enum class Interpolation { nearest, bilinear };

}}  // namespace lockstep
