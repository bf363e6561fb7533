// WholeState: before a state may be saved, the chief gets what differs between ranks, and all
// compare what must not differ, by checksums.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/training/fit.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// CRC-32C of what is equal on all ranks between two steps; with rounds, after a meeting. Only the
/// first replica of a process computes those of what its replicas share.
struct ReplicaChecksums {
  std::uint32_t parameters = 0;
  std::uint32_t slots = 0;      ///< the optimizer's, without those of a worker's share
  std::uint32_t counters = 0;   ///< learning rates and updates made
  std::uint32_t untrained = 0;  ///< moving statistics and the like: each replica's own
};

template <class T>
[[nodiscard]] ReplicaChecksums checksums_of(const Variables<T>& variables,
                                            const Workspace<T>& workspace, bool leader) {
  ReplicaChecksums sums{.untrained = crc32c(std::as_bytes(workspace.state().values()))};
  if (!leader) return sums;
  sums.parameters = variables.parameters_crc32c();
  for (std::size_t i = variables.own_slots(); i < variables.slots().size(); ++i)
    for (const auto slice : variables.slots()[i].slices())
      sums.slots = crc32c(std::as_bytes(slice), sums.slots);
  if (variables.accumulated_steps > 0)
    sums.slots = crc32c(std::as_bytes(variables.accumulated().values()), sums.slots);
  const std::uint64_t counters[] = {std::bit_cast<std::uint64_t>(variables.learning_rate()),
                                    std::bit_cast<std::uint64_t>(variables.previous_learning_rate),
                                    static_cast<std::uint64_t>(variables.iterations),
                                    std::bit_cast<std::uint64_t>(variables.loss_scale.value),
                                    static_cast<std::uint64_t>(variables.loss_scale.finite_steps)};
  sums.counters = crc32c(std::as_bytes(std::span(counters)));
  return sums;
}

/// Which ranks differ from the majority, and in what; empty if none does. `local_size`: replicas of
/// each worker.
[[nodiscard]] std::optional<std::string> replica_difference(std::span<const ReplicaChecksums> ranks,
                                                            std::size_t local_size);

/// Called by all ranks. The same on all of them.
template <Collective C>
[[nodiscard]] std::optional<std::string> compare_replicas(C& collective,
                                                          const ReplicaChecksums& mine,
                                                          int local_size) {
  std::vector<ReplicaChecksums> all(static_cast<std::size_t>(collective.size()));
  collective.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return replica_difference(all, static_cast<std::size_t>(local_size));
}

/// Throws ReplicasDiffer on all ranks when the variables of one differ, but on none before every
/// other rank knows.
template <class T>
void verify_replicas(const Parts<T>& parts) {
  auto& collective = parts.replica.collective();
  if (collective.size() == 1) return;
  const auto difference = compare_replicas(
      collective, checksums_of(parts.variables, parts.workspace, parts.replica.local_rank() == 0),
      parts.replica.local_size());
  if (!difference) return;
  try {
    collective.barrier();
  } catch (const CollectiveError&) {  // a rank has thrown already
  }
  const char* const remedy =
      ". Bits were flipped in memory or on the way, or a callback has changed one worker alone. "
      "Nothing of this is "
      "saved: start all workers again, and training goes on from the last backup";
  throw ReplicasDiffer(
      concat({"fit: after ", parts.variables.iterations,
              " updates the replicas have become different: ", *difference, remedy}));
}

/// Compares replicas (FitOptions::verify_replicas), and gathers slots that are spread over workers
/// (sharded_updates) and what each rank has for itself (rounds, residuals).
template <class T>
class WholeState final : public FitPart<T> {
 public:
  explicit WholeState(FitState<T>& fit) : fit_(fit) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "whole state"; }

  /// What was compared and gathered is out of date.
  void before_step(FitRank<T>& rank) override {
    rank.has_gathered = false;
    if (!rank.is_leader) return;
    fit_.is_whole = false;
    fit_.trainer.release_slots();
  }

  void complete(FitRank<T>& rank) override {
    if (!std::exchange(rank.has_gathered, true)) fit_.trainer.gather_rank_state(rank.replica);
    rank.replica.team_barrier();  // a callback may have changed the model
    if (fit_.options.verify_replicas) verify_replicas(fit_.trainer.parts(rank.replica));
    gather_slots(rank.replica);
    if (rank.is_leader) fit_.is_whole = true;
  }

  void leave(FitRank<T>& rank, const FitEnd& end) override {
    if (end.preemption != ExitCode::success)
      complete(rank);
    else if (!end.leaves_world)
      gather_slots(rank.replica);
  }

 private:
  void gather_slots(AnyReplica& replica) const {
    if (fit_.any_rank_has.complete_state && !fit_.trainer.has_all_slots())
      fit_.trainer.gather_slots(replica);
  }

  FitState<T>& fit_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/whole_state.ipp"
#endif
