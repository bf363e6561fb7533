// How layers become a model: Sequential, Parallel, Frozen and others.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/lora.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/network/spectral_normalization.hpp"
#include "lockstep/network/swiglu.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/network/time_distributed.hpp"
