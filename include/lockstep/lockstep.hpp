// All of lockstep.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/callbacks/json_logger.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/callbacks/prometheus_file.hpp"
#include "lockstep/callbacks/prometheus_port.hpp"
#include "lockstep/callbacks/tensorboard.hpp"
#include "lockstep/callbacks/terminate_on_nan.hpp"
#include "lockstep/cluster/mpi_cluster.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/mpi.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/datasets/image_folder.hpp"
#include "lockstep/local.hpp"
#include "lockstep/onnx/export_onnx.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/checkpoint_manager.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/saving/sidecar_evaluator.hpp"
#include "lockstep/saving/write_filepath.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
