// All of lockstep.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/callbacks/terminate_on_nan.hpp"
#include "lockstep/cluster/mpi_cluster.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/auto.hpp"
#include "lockstep/collectives/mpi.hpp"
#include "lockstep/collectives/ring.hpp"
#include "lockstep/collectives/shared_memory.hpp"
#include "lockstep/collectives/tcp.hpp"
#include "lockstep/local.hpp"
#include "lockstep/model/checkpoint.hpp"
#include "lockstep/model/checkpoint_manager.hpp"
#include "lockstep/model/model_files.hpp"
#include "lockstep/model/sidecar_evaluator.hpp"
#include "lockstep/model/write_filepath.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
