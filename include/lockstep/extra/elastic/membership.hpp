// What users choose of workers that come and go, and how a process joins them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a dataset's global batch, that of `.batch(n)`, is when the workers change. Learning rates
/// stay in either case.
enum class GlobalBatch : std::uint8_t {
  fixed,  ///< it stays, and each worker takes a larger or smaller part of it
  /// Each worker's part stays. Where W of the cluster's N workers are there, a step takes n * W / N
  /// samples, rounded down, but at least one: the next ones in the data, so that a pass (without
  /// steps_per_epoch) has each sample once, whatever the workers do meanwhile. Needs
  /// AutoShardPolicy::data.
  follows_world,
};

/// More or fewer workers without stopping: a worker that is lost and does not come back in time is
/// left out, and one that comes later is taken in. The workers at work at one time are a **world**;
/// a world follows another only if more than half of that one agree, so that there are never two at
/// once. (One of two does not go on alone.)
/// Include <lockstep/extra/elastic.hpp>.
struct ElasticOptions {
  int min_workers = 1;  ///< fewer workers do not go on
  int max_workers = 0;  ///< 0: all of the cluster; else that number, which the cluster must have
  /// How long the others wait for one that is lost, before they go on without it.
  std::chrono::milliseconds wait = std::chrono::seconds(30);
  GlobalBatch global_batch = GlobalBatch::fixed;

  /// Throws ConfigurationError unless it makes sense for a cluster of this many workers.
  [[gnu::cold]] void validate(int cluster) const {
    if (max_workers != 0 && max_workers != cluster)
      throw ConfigurationError(
          concat({"ElasticOptions::max_workers is ", max_workers, ", and the cluster has ", cluster,
                  " workers: name as many addresses as there may be workers, "
                  "or leave max_workers 0"}));
    if (min_workers < 1 || min_workers > cluster)
      throw ConfigurationError(concat({"ElasticOptions::min_workers must be 1 to ", cluster,
                                       ", the workers of the cluster, got ", min_workers}));
    if (wait < std::chrono::milliseconds(1))
      throw ConfigurationError(
          concat({"ElasticOptions::wait must be at least 1 ms, got ", wait.count(), " ms"}));
  }
};

namespace detail {

/// A process's membership in the worlds of an elastic cluster. Listens at the process's address of
/// the cluster for as long as it lives, and has two threads: one that talks with the other
/// processes, also while this one is at work, and one that calls them. The members of a world
/// connect on ports that are new for each.
///
/// `addresses` are those of the cluster, `slot` this process's place among them; `build`, a line,
/// is what all processes must have in common: one with another build is turned away. Throws
/// ConfigurationError when an option makes no sense or the port cannot be listened on.
[[nodiscard]] std::unique_ptr<Worlds> join_worlds(int slot,
                                                  const std::vector<std::string>& addresses,
                                                  const ElasticOptions& elastic,
                                                  const CommunicationOptions& options,
                                                  const std::string& build = {});

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/elastic/membership.ipp"
#endif
