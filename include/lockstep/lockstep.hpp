// What most programs need. The rest is one include away: a face for each room (lockstep/data.hpp,
// layers.hpp, callbacks.hpp and others), or the header that stands beside a name at the end.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/local.hpp"
#include "lockstep/saving/checkpoint.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

// Programs that name these include, besides, the header that stands beside them.
class JSONLogger;  // #include <lockstep/callbacks/json_logger.hpp>
class Mpi;         // #include <lockstep/extra/mpi.hpp>
template <class... None>
void mpi_cluster(None...) = delete;  // #include <lockstep/extra/mpi.hpp>
class Nccl;                          // #include <lockstep/extra/nccl.hpp>
class PrometheusFile;                // #include <lockstep/extra/prometheus.hpp>
class PrometheusPort;                // #include <lockstep/extra/prometheus.hpp>
class TensorBoard;                   // #include <lockstep/extra/tensorboard.hpp>
class ParameterServerStrategy;       // #include <lockstep/extra/parameter_server.hpp>
template <class Model>
class SidecarEvaluator;  // #include <lockstep/saving/sidecar_evaluator.hpp>
template <class Net, class T>
class Predictor;  // #include <lockstep/saving/predictor.hpp>
template <class Net, class T>
class Generator;         // #include <lockstep/saving/generator.hpp>
struct Int8Weights;      // #include <lockstep/saving/int8_weights.hpp>
struct ElasticOptions;   // #include <lockstep/extra/elastic.hpp>
class TFRecordWriter;    // #include <lockstep/extra/records.hpp>
class BytePairEncoding;  // #include <lockstep/extra/text.hpp>
class Cuda;              // #include <lockstep/extra/cuda.hpp>
template <class Device, class Net>
struct On;  // #include <lockstep/extra/cuda.hpp>
template <class... Named>
struct Inputs;  // #include <lockstep/model/inputs_outputs.hpp>
template <class... Named>
struct Outputs;  // #include <lockstep/model/inputs_outputs.hpp>

struct MixedBFloat16;  // #include <lockstep/network/mixed_precision.hpp>
struct MixedFloat16;   // #include <lockstep/network/mixed_precision.hpp>
template <class L>
struct Float32;  // #include <lockstep/network/float32.hpp>
template <class...>
void budget(...) = delete;  // #include <lockstep/model/budget.hpp>
template <class...>
void largest_batch(...) = delete;      // #include <lockstep/model/budget.hpp>
void find_batch_size(...) = delete;    // #include <lockstep/saving/batch_size.hpp>
void export_onnx(...) = delete;        // #include <lockstep/extra/onnx.hpp>
void export_header(...) = delete;      // #include <lockstep/extra/export_header.hpp>
void from_image_folder(...) = delete;  // #include <lockstep/datasets/image_folder.hpp>
void from_tar_shards(...) = delete;    // #include <lockstep/datasets/tar_shards.hpp>
void from_tar_images(...) = delete;    // #include <lockstep/datasets/tar_shards.hpp>
void from_tfrecords(...) = delete;     // #include <lockstep/extra/records.hpp>
void from_fixed_length_records(...) =
    delete;  // #include <lockstep/datasets/fixed_length_records.hpp>
// (signature is a variable)          // #include <lockstep/network/signature.hpp>

}}  // namespace lockstep
