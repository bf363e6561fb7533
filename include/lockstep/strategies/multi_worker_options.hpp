// Options of training on many machines.
#pragma once

#include <concepts>
#include <memory>
#include <optional>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/replica_threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct ElasticOptions;  // #include <lockstep/extra/elastic.hpp>

/// Nothing, or made of an ElasticOptions.
class Elastic {
 public:
  Elastic() noexcept = default;
  Elastic(std::nullopt_t) noexcept {}      // NOLINT(*-explicit-*)
  Elastic(const ElasticOptions& options);  // NOLINT(*-explicit-*)
  template <std::same_as<ElasticOptions> Options>
  Elastic(const std::optional<Options>& options) {  // NOLINT(*-explicit-*)
    if (options) *this = *options;
  }

  /// Null where there is nothing.
  [[nodiscard]] const detail::ElasticCode* code() const noexcept { return code_.get(); }

 private:
  std::shared_ptr<const detail::ElasticCode> code_;
};

struct MultiWorkerMirroredOptions {
  /// Threads in each worker, the same number in all. 0: the cores that the launcher has given to
  /// this worker (cores_given_by_launcher), or else usable_cores() / workers on the machine.
  int replicas = 1;
  CommunicationOptions communication_options = {};
  Pinning pinning = Pinning::automatic;
  /// Each worker updates a share of the parameters, and has only the optimizer's slots of these:
  /// with N workers, 1/N of the slots' memory and of the optimizer's time (ZeRO's first stage). The
  /// bits and the files are those of other runs (with global_clipnorm, to the last bit of the
  /// norm). For optimizers that update whole variables (Lamb, LARS, Adafactor, Muon), shares are
  /// whole variables. Moving averages of the weights (use_ema) stay whole. The chief has all slots
  /// while a state is saved, for which all workers must call save, and not the chief alone. A lost
  /// worker takes its slots along: with OnPeerLoss::rejoin or `elastic`, all go on from the last
  /// backup, and without one they end.
  bool sharded_updates = false;
  /// sharded_updates, and each worker keeps the summed gradients of its share alone (ZeRO's second
  /// stage): they are reduced while backward goes on, and the memory of the others is given back
  /// to the system. The bits and the files are those of other runs. Backward writes whole arrays
  /// first: those of a layer whose gradients are final last, as the table of a TiedHead, are whole
  /// until then. With gradient_accumulation_steps, sums and gradients stay whole. After
  /// ReplicaModel::apply, gradients of other shares are zero.
  bool sharded_gradients = false;
  /// Training goes on with fewer workers when some are lost, and with more when some join: see
  /// ElasticOptions. A model's fit then survives losses as with OnPeerLoss::rejoin. The workers'
  /// addresses must be known, as from TF_CONFIG or `--workers`; in a world, workers connect on
  /// ports that the system chooses. Tls::certificates are for the places in the configured cluster.
  /// With SharedMemory, all of the cluster must be on one machine.
  Elastic elastic = {};
};

}}  // namespace lockstep
