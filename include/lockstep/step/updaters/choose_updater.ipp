#pragma once

#include <memory>
#include <utility>

#include "lockstep/collectives/options.hpp"
#include "lockstep/step/updaters/accumulated.hpp"
#include "lockstep/step/updaters/all_reduce.hpp"
#include "lockstep/step/updaters/alone.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/step/updaters/rounds.hpp"
#include "lockstep/step/updaters/sharded.hpp"
#include "lockstep/step/updaters/shared_memory.hpp"
#include "lockstep/step/updaters/threads.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
std::unique_ptr<Updater<T>> choose_route(const Parts<T>& parts) {
  const AnyCollective& collective = parts.replica.collective();
  const bool needs_all = parts.variables.needs_all_gradients();
  if (collective.size() == 1 && !needs_all) return std::make_unique<AloneUpdater<T>>(parts);
  if (collective.can().scatter && !needs_all) return std::make_unique<ThreadsUpdater<T>>(parts);
  const bool updates_for_all = !parts.variables.shares().has_gradients() &&
                               can_update_for_all(parts.program, parts.replica);
  if (parts.variables.shares_updates() && !updates_for_all)
    return std::make_unique<ShardedUpdater<T>>(parts);
  if (collective.overlap() == Overlap::on) return std::make_unique<OverlappedUpdater<T>>(parts);
  if (updates_for_all) return std::make_unique<SharedMemoryUpdater<T>>(parts);
  return std::make_unique<AllReduceUpdater<T>>(parts);
}

template <class T>
std::unique_ptr<Updater<T>> choose_updater(const Parts<T>& parts) {
  if (parts.variables.is_in_rounds()) return std::make_unique<RoundsUpdater<T>>(parts);
  auto route = choose_route(parts);
  if (parts.variables.accumulation_steps() == 1) return route;
  return std::make_unique<AccumulatedUpdater<T>>(parts, std::move(route));
}

LOCKSTEP_INSTANCE(
    std::unique_ptr<Updater<LOCKSTEP_REAL>> choose_updater(const Parts<LOCKSTEP_REAL>&));
}}}  // namespace lockstep::detail
