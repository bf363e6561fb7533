// All activation functions.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/gelu.hpp"
#include "lockstep/layers/piecewise_activations.hpp"
#include "lockstep/layers/smooth_activations.hpp"
