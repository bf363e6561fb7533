#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/core/text.hpp"
#include "lockstep/training/rank_state.hpp"
#include "lockstep/training/saved_arrays.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
void RankState<T>::start(std::size_t replica) {
  if (replica != 0 && variables_.is_in_rounds())
    own_[replica] = std::make_unique<Variables<T>>(program_, variables_.synchronization());
}

template <class T>
void RankState<T>::begin_steps(AnyReplica& replica) const {
  if (!variables_.is_in_rounds() || replica.local_size() == 1) return;
  const auto& own = own_[static_cast<std::size_t>(replica.local_rank())];
  if (own) own->take_over(variables_);
  replica.team_barrier();
}

template <class T>
void RankState<T>::set_learning_rate(double learning_rate) const {
  variables_.set_learning_rate(learning_rate);
  for (const auto& own : own_)
    if (own) own->set_learning_rate(learning_rate);
}

template <class T>
void RankState<T>::share_parameters() const {
  for (const auto& own : own_)
    if (own)
      std::ranges::copy(variables_.parameters().values(), own->parameters().values().begin());
}

template <class T>
void RankState<T>::gather(AnyReplica& replica, Workspace<T>& workspace, bool has_residuals) {
  auto& collective = replica.collective();
  Variables<T>& mine = variables(static_cast<std::size_t>(replica.local_rank()));
  std::size_t count = 0;
  // Replicas receive into their gradients.
  const auto bring = [&](int from, Arena<T>& arena) {
    const std::span<T> values =
        from == collective.rank() ? arena.values() : workspace.gradients().values();
    if (collective.size() > 1) collective.broadcast(std::as_writable_bytes(values), from);
    if (collective.rank() != 0) return;
    if (count == gathered_.size()) gathered_.emplace_back(program_.layout().variables);
    std::ranges::copy(values, gathered_[count++].values().begin());
  };
  for (int rank = 1; rank < collective.size(); ++rank)
    for (std::size_t i = 0; i < mine.own_slots(); ++i) bring(rank, mine.slots()[i]);
  for (int rank = 0; has_residuals && rank < collective.size(); rank += replica.local_size())
    bring(rank, workspace.residuals());
}

template <class T>
void RankState<T>::save(std::vector<SavedArray>& slots, std::size_t ranks) const {
  const std::size_t own = variables_.own_slots(), of_ranks = own * (ranks - 1);
  for (std::size_t i = 0; i < gathered_.size(); ++i)
    save_arrays(slots, slots.size(),
                array_list<T>(program_.layout().variables, program_.names().variables,
                              gathered_[i].slices()),
                i < of_ranks ? concat({"/rank_", 1 + i / own, "/slot_", i % own})
                             : concat({"/worker_", i - of_ranks, "/residual"}));
}

template <class T>
bool RankState<T>::fits(const TrainingState& saved, std::size_t first) const {
  if (saved.slots.size() <= first || arrays() == 0) return saved.slots.size() == first;
  const std::size_t rest = saved.slots.size() - first, all = rest / arrays();
  if (rest % arrays() != 0 || saved.world_size < 1) return false;
  const auto ranks = static_cast<std::uint64_t>(saved.world_size);
  const std::uint64_t own = variables_.own_slots();
  if (own > 0 && (ranks > all + 1 || (ranks - 1) * own > all)) return false;
  const std::size_t residuals = all - (ranks - 1) * own;
  return residuals == 0 ||
         (residuals <= ranks &&
          saved.slots[first + (ranks - 1) * own * arrays()].name.ends_with("/residual"));
}

template <class T>
void RankState<T>::load(const TrainingState& saved, std::size_t first,
                        const DistributionContext& place, Arena<T>& residuals, bool check_only) {
  const auto take = [&](std::size_t from, const Arena<T>& to) {
    load_arrays(saved.slots, from,
                array_list<T>(program_.layout().variables, program_.names().variables, to.slices()),
                check_only);
  };
  const bool has_all = saved.slots.size() > first;
  const std::size_t ranks = has_all ? static_cast<std::size_t>(saved.world_size) : 1;
  const std::size_t own = variables_.own_slots(), worker = static_cast<std::size_t>(place.worker);
  for (std::size_t i = 0; own > 0 && i < own_.size(); ++i) {
    const std::size_t rank = (worker * own_.size() + i) % ranks;
    const std::size_t begin = rank == 0 ? 0 : first + (rank - 1) * own * arrays();
    for (std::size_t slot = 0; slot < own; ++slot)
      take(begin + slot * arrays(), variables(i).slots()[slot]);
  }
  const auto workers = static_cast<std::size_t>(place.num_workers);
  const std::size_t begin = first + (ranks - 1) * own * arrays();
  const bool has_residuals = has_all && saved.slots.size() - begin == workers * arrays();
  if (!residuals.values().empty() && has_residuals)
    take(begin + worker * arrays(), residuals);
  else if (!check_only)
    std::ranges::fill(residuals.values(), T(0));
  if (check_only) return;
  gathered_.clear();
  const bool has_same = ranks == workers * own_.size() &&
                        (residuals.values().empty() ? saved.slots.size() == begin : has_residuals);
  if (worker != 0 || !has_all || !has_same) return;
  for (std::size_t from = first; from < saved.slots.size(); from += arrays())
    take(from, gathered_.emplace_back(program_.layout().variables));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(class RankState<LOCKSTEP_REAL>);
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
