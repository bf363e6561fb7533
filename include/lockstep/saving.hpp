// Files of models: weights, checkpoints, inference, evaluation beside training.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/saving/adapters.hpp"
#include "lockstep/saving/batch_size.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/saving/predictor.hpp"
#include "lockstep/saving/sidecar_evaluator.hpp"
