// Strategies, and the collectives that they are made of.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
