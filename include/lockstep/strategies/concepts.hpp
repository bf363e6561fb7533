// The Strategy concept.
#pragma once

#include <concepts>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a strategy hands to the function that runs on each replica: its place, its collective, and
/// the team of the replicas in this process, which share the parameters.
///
///  1. `collective()`: a Collective over all ranks.
///  2. `local_rank()` in [0, local_size()): this replica among those of its process.
///  3. `team_barrier()`: returns when every replica of this process has called it; throws when one
///     has failed.
/// Optional:
///  4. `team_lead(f)`: called by every replica of the process. When all have come, the first one
///     calls `f()`, and the others return when f has. Until then they take part in what f passes to
///     the strategy's run(). Without it, a callback cannot use a model where a process has several
///     replicas.
template <class R>
concept Replica = requires(R& replica, const R& same) {
  requires Collective<std::remove_cvref_t<decltype(replica.collective())>>;
  { same.local_rank() } -> std::same_as<int>;
  { same.local_size() } -> std::same_as<int>;
  replica.team_barrier();
};

namespace detail {
struct AnyReplicaFunction {
  template <class R>
  void operator()(R&) const {}
};
}  // namespace detail

/// Where and how the replicas of a model run.
///
/// For a strategy S:
///  1. `S::Replica` satisfies Replica.
///  2. `num_workers()`, `worker_index()` in [0, num_workers()), `is_chief()` (worker 0).
///  3. `local_replicas()`: replicas in this process; `num_replicas_in_sync()`: in all processes.
///     Ranks count worker by worker. The batch of a dataset is global: a program that wants 64
///     samples for each replica says `.batch(64 * strategy.num_replicas_in_sync())`.
///  4. `run(f)` calls `f(S::Replica&)` once on every replica of this process, each on its own
///     thread (the first on the caller's), and returns when all have returned. When one throws, the
///     others are aborted and the first exception is thrown. The library's strategies
///     return what f returns as a PerReplica. A function that team_lead runs may call run() again;
///     elsewhere in f it throws an Error.
/// Optional:
///  5. `reconnect()`: after a CollectiveError, makes new connections to all workers. The calls that
///     follow are those of a process that has just been started. With it, training can survive the
///     loss of a worker (see OnPeerLoss).
///  6. `is_running()`: whether run is under way, so that a fit in a callback leaves the loss of a
///     worker to the outer fit.
///  7. `sharded_updates()`: whether each worker updates a share of the parameters, as
///     MultiWorkerMirroredOptions says; the same on all workers. `sharded_gradients()`: likewise.
///  8. `count_model()`: the number of this model, from 1, which must be the same on all workers (a
///     worker that was started again counts from 1). Not called for one that a callback compiles.
///     Where programs call reconnect() themselves, the strategy leaves it out.
///  9. `has_parameter_servers()` and `remote_variables(trainer)`: whether parameters live on
///     servers, and what trains them then, as ParameterServerStrategy has it; a strategy that wraps
///     it passes both on.
template <class S>
concept Strategy = requires(S& strategy, const S& same) {
  requires Replica<typename S::Replica>;
  { same.num_workers() } -> std::same_as<int>;
  { same.worker_index() } -> std::same_as<int>;
  { same.is_chief() } -> std::same_as<bool>;
  { same.local_replicas() } -> std::same_as<int>;
  { same.num_replicas_in_sync() } -> std::same_as<int>;
  strategy.run(detail::AnyReplicaFunction{});
};

}}  // namespace lockstep
