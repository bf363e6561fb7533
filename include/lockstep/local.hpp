// Everything for a program that trains in one process, on one thread or on several, without the
// network, JSON and archives. Add lockstep/saving/model_files.hpp and the headers of callbacks/ for
// files, lockstep/lockstep.hpp for several workers.
#pragma once

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/learning_rate.hpp"
#include "lockstep/callbacks/swap_ema_weights.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/core/config.hpp"  // first: see there
#include "lockstep/core/error.hpp"
#include "lockstep/data.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/image_sets.hpp"
#include "lockstep/datasets/npy.hpp"
#include "lockstep/datasets/synthetic_digits.hpp"
#include "lockstep/datasets/text_lines.hpp"
#include "lockstep/datasets/token_shard.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/losses.hpp"
#include "lockstep/metrics.hpp"
#include "lockstep/model.hpp"
#include "lockstep/network.hpp"
#include "lockstep/optimizers.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
