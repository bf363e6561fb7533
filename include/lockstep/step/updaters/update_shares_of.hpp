// How the workers of a strategy share out updates.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/step/update_shares.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// From so many blocks for each worker on, no share is more than an eighth above another's.
inline constexpr std::size_t least_blocks_of_worker = 8;

/// Blocks, where the collective can scatter them, a worker needs no gradients but those of its own
/// elements, and there are enough blocks to be fair. Else one range for each worker, cut between
/// variables where the optimizer updates whole ones. The same on all ranks.
template <class T>
[[nodiscard]] UpdateShares update_shares_of(const Variables<T>& variables, AnyReplica& replica) {
  const std::size_t elements = variables.parameters().values().size();
  const int workers = replica.collective().size() / replica.local_size();
  const auto count = static_cast<std::size_t>(workers);
  const bool whole = variables.updates_whole_variables();
  const bool needs_others =
      whole || (variables.clips_by_norm() && !variables.clips_by_global_norm());
  UpdateShares shares;
  const Partition partition(elements, workers);
  if (replica.collective().can().shard && !needs_others &&
      partition.blocks() >= count * least_blocks_of_worker) {
    for (int worker = 0; worker < workers; ++worker) {
      std::vector<std::pair<std::size_t, std::size_t>> blocks;
      const int group = partition.group_ending_at(worker);
      for (std::size_t k = 0; k < partition.group_size(group); ++k) {
        const Piece block = partition.group_block(group, k);
        blocks.emplace_back(block.offset, block.count);
      }
      shares.add(blocks);
    }
    shares.set_of_blocks();
    return shares;
  }
  const auto begin_of = [&](std::size_t worker) {
    if (worker == count) return elements;
    const std::size_t wanted = variables.parameters().part(worker, count).first;
    if (!whole) return wanted;
    const auto distance = [&](std::size_t begin) {
      return begin < wanted ? wanted - begin : begin - wanted;
    };
    std::size_t nearest = elements;
    for (const UpdateRange& range : variables.ranges())
      if (distance(range.begin) < distance(nearest)) nearest = range.begin;
    return nearest;
  };
  for (std::size_t worker = 0; worker < count; ++worker) {
    std::vector<std::pair<std::size_t, std::size_t>> range;
    const std::size_t begin = begin_of(worker), end = begin_of(worker + 1);
    if (begin < end) range.emplace_back(begin, end - begin);
    shares.add(range);
  }
  return shares;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
