// Optimizers and learning rate schedules.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/lion.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"
