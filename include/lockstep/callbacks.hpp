// Callbacks.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/callbacks/json_logger.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/learning_rate.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/callbacks/swap_ema_weights.hpp"
