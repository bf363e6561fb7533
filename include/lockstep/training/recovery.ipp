#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/fit.hpp"
#include "lockstep/training/fit_state.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/recovery.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
Recovery<T>::Recovery(FitState<T>& fit) : fit_(fit), was_chief_(fit.is_chief()) {
  if (const ElasticWorld* const world = fit.elastic_world())
    survive_losses(world->encode_state(), world->decode_state());
}

template <class T>
void Recovery<T>::survive_losses(EncodeState encode, DecodeState decode) {
  if (!fit_.trainer.strategy().can_reconnect()) return;
  encode_ = encode;
  decode_ = decode;
}

// --- the beginning -------------------------------------------------------------------------------

template <class T>
void Recovery<T>::begin(FitRank<T>& rank) {
  AnyReplica& replica = rank.replica;
  auto kept = furthest(replica.collective(), rank.is_leader);
  std::vector<std::byte> saved = std::move(kept.bytes);
  if (!saved.empty() && !kept.is_begun) {  // lost before it began: the fit begins as usual
    rank.call_back([&] { restore_state(fit_.trainer, decode_(saved)); });
    saved.clear();
  }
  const bool is_from_file = saved.empty();
  if (is_from_file)
    saved = bytes_from_chief(replica.collective(),
                             rank.is_leader ? std::move(pending_) : std::vector<std::byte>{});
  else if (rank.is_leader)
    pending_ = {};
  rank.call_back([&] {
    if (const auto reason = std::exchange(unreadable_, nullptr)) do_without_file(reason, saved);
    if (decode_ != nullptr && (fit_.is_chief() || (is_from_file && !saved.empty())))
      fit_.data = SavedData::of(fit_.train, fit_.plan);
    if (!saved.empty()) take_over(saved, is_from_file);
  });
  if (saved.empty()) {
    check_slots(replica);
    fit_.trainer.broadcast_from_chief(replica);
    // If epochs are whole passes, those before initial_epoch count as made, even for a model that
    // has not made them.
    if (rank.is_leader)
      fit_.saved_place.data_iteration =
          std::max(fit_.trainer.variables().next_pass,
                   fit_.plan.new_pass_each_epoch ? std::int64_t{fit_.options.initial_epoch} : 0);
    replica.team_barrier();
  }
  if (rank.is_leader) {
    fit_.window.waiting = 0;
    fit_.requests.take_signals_again();
    say_where_it_goes_on(!saved.empty());
    kept_ = {};
    is_begun_ = true;
  }
  rank.at = fit_.saved_place;
}

/// `saved`: the state of the workers that were there before; empty if none of them has kept one.
template <class T>
void Recovery<T>::do_without_file(const std::exception_ptr& reason,
                                  const std::vector<std::byte>& saved) {
  try {
    std::rethrow_exception(reason);
  } catch (const std::exception& error) {
    if (saved.empty()) throw;
    log_warning(concat({error.what(),
                        ". It is not needed now: training goes on from the state of those that "
                        "were there before"}));
  }
}

/// Called by all ranks: the state that has come furthest, of those that they keep.
template <class T>
auto Recovery<T>::furthest(AnyCollective& collective, bool leader) -> Kept {
  const std::int64_t mine = leader && !kept_.empty() ? progress_ : -1;
  std::vector<std::int64_t> all(static_cast<std::size_t>(collective.size()));
  collective.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const auto best = std::max_element(all.begin(), all.end());
  if (*best < 0) return {};
  const int root = static_cast<int>(best - all.begin());
  return {.bytes = bytes_from(collective, root,
                              collective.rank() == root ? kept_ : std::vector<std::byte>{}),
          .is_begun = *best % 4 > 0};
}

/// Called by the leader. `is_from_file`: else it is the state of a worker that survived.
template <class T>
void Recovery<T>::take_over(const std::vector<std::byte>& saved, bool is_from_file) {
  if (decode_ == nullptr)
    throw ConfigurationError(
        "fit: the chief restores a saved state, this worker has no callback that can: start "
        "the same program on every worker");
  Trainer<T>& trainer = fit_.trainer;
  const bool is_sharded = read_shares_ != nullptr && path_of_shares(saved).has_value();
  TrainingState state =
      is_sharded ? read_shares_(saved, slots_needed(trainer), trainer.strategy().worker_index(),
                                [&](const std::string& mine) {
                                  // (With parameter servers the chief alone restores.)
                                  return trainer.strategy().has_parameter_servers()
                                             ? std::vector{mine}
                                             : exchange_texts(trainer.strategy(), mine);
                                })
                 : decode_(saved);
  const bool is_of_later_fit = state.fit > fit_.trainer.fits();  // to which the program comes
  if (is_from_file && !is_of_later_fit) check_data(state);
  restore_state(fit_.trainer, state,
                {.allow_changes = allow_changes_,
                 .remedy = "resume with the same program, or start afresh; BackupAndRestore's "
                           ".allow_changes takes other numbers for the same optimizer's options"});
  if (is_of_later_fit) {
    fit_.saved_place.epoch = fit_.options.epochs + 1;
    if (fit_.is_chief())
      log_line(concat({"fit: nothing to do in fit ", fit_.trainer.fits(),
                       " of this model: the restored training is in fit ", state.fit,
                       "; what it was restored from stays"}));
    return;
  }
  fit_.saved_place = TrainingPosition::take(state, fit_.metric_state());
  const std::string differences = fit_.callbacks.restore(state.callbacks);
  if (!fit_.is_chief()) return;
  if (!differences.empty()) log_line(concat({"fit: ", differences}));
  if (fit_.saved_place.epoch > fit_.options.epochs)
    log_line(concat({"fit: nothing to do: the restored training is in epoch ",
                     fit_.saved_place.epoch + 1, ", and .epochs is ", fit_.options.epochs,
                     "; what it was restored from stays"}));
  else if (fit_.saved_place.has_ended() || fit_.saved_place.epoch == fit_.options.epochs)
    log_line(concat(
        {"fit: nothing to do: the restored training ended after epoch ", fit_.saved_place.epoch}));
}

/// Called by the leader, before the saved state is used.
template <class T>
void Recovery<T>::check_data(const TrainingState& saved) const {
  std::optional<std::uint64_t> seed = fit_.trainer.given_seed();
  if (seed != fit_.trainer.variables().seed) seed.reset();  // a different state was restored before
  const SavedDifferences differences = saved_differences(saved, fit_.data, seed);
  if (differences.text.empty()) return;
  if (differences.has_other_order && saved.data_position > 0 && !allow_changes_)
    throw ConfigurationError(
        concat({"fit: the saved training has ", differences.text,
                ". It is in the middle of a pass "
                "over its data, a place that has no meaning in others: go on with its data, or "
                "delete what it was restored from to train from the beginning, or set "
                "BackupAndRestore's .allow_changes to go on there in the data of this program"}));
  if (fit_.is_chief())
    log_warning(concat({"fit: the saved training has ", differences.text,
                        ". It goes on at the saved place with the saved seed, in the data of this "
                        "program; to train from the beginning, delete what it was restored from"}));
}

/// Without a saved state, workers go on with the slots that they have, which must be of one run.
/// They cannot go on after a loss, which may have come when only some parameters were updated, or
/// within a round.
template <class T>
void Recovery<T>::check_slots(AnyReplica& replica) const {
  const Trainer<T>& trainer = fit_.trainer;
  if (!trainer.is_state_spread()) return;
  std::array<std::int64_t, 2> most{trainer.variables().iterations, -trainer.variables().iterations};
  replica.collective().all_reduce(std::span<std::int64_t>(most), ReduceOp::max);
  const bool is_known = any_rank(replica, is_begun_);
  const bool in_rounds = trainer.variables().is_in_rounds();
  if (!is_known && (in_rounds || most[0] == -most[1] || trainer.program().layout().slots == 0))
    return;
  try {
    replica.collective().barrier();  // none throws before all others know
  } catch (const CollectiveError&) {
  }
  throw Error(
      took_along(in_rounds ? trainer.variables().synchronization().description()
                           : std::string("sharded_updates"),
                 in_rounds ? "what its optimizer has learnt" : "its share of the update",
                 most[0] == -most[1] ? concat({most[0]}) : concat({-most[1], " to ", most[0]})),
      ExitCode::lost_peer);
}

template <class T>
void Recovery<T>::say_where_it_goes_on(bool is_restored) const {
  if (is_begun_) fit_.history.truncate(static_cast<int>(fit_.saved_place.epoch));
  if (fit_.elastic_world() != nullptr && is_restored)
    log_line(concat({"fit: ", fit_.elastic_world()->description(), ", from epoch ",
                     fit_.saved_place.epoch + 1, ", step ", fit_.saved_place.step + 1}));
  else if (is_begun_)
    log_line(concat({"fit: all workers are together again, and go on at epoch ",
                     fit_.saved_place.epoch + 1, ", step ", fit_.saved_place.step + 1}));
}

// --- a loss, and another world -------------------------------------------------------------------

/// Keeps the state until workers are connected again; until then a signal ends the process.
/// `is_whole`: all have made the same step and, where they share out updates, gathered the slots.
template <class T>
void Recovery<T>::keep(bool is_whole) {
  Trainer<T>& trainer = fit_.trainer;
  const auto keep_state = [&](bool is_begun) {
    if (!kept_.empty()) return;  // lost while reconnecting: the model is a new one
    trainer.catch_up();
    const TrainingState now = is_begun ? fit_.state() : save_state(trainer);
    // After the same number of updates, a worker that has completed the epoch is further than one
    // within it, and one that has begun this fit is further than one that has not.
    progress_ = 4 * now.iterations + (is_begun ? (now.step > 0 ? 2 : 1) : 0);
    kept_ = encode_(now);
  };
  if (!is_begun_)
    keep_state(false);
  else if (!trainer.is_state_spread() || (is_whole && fit_.is_chief() && trainer.has_all_slots()))
    keep_state(true);
  else if (fit_.is_chief() && read_backup_)  // the lost worker's share of the updates is lost, too
    pending_ = read_backup_(trainer.state_bytes());
  fit_.requests.leave_signals();
}

template <class T>
void Recovery<T>::survive(const CollectiveError& error) {
  Trainer<T>& trainer = fit_.trainer;
  note_failure(error.failure());
  const bool has_waited = error.failure().operation == "start-up";  // no worker came back in time
  // Before the fit has begun, a restarted worker would not reach it either; in an elastic world the
  // others go on, and take it in.
  const bool may_begin = fit_.elastic_world() != nullptr && !trainer.is_state_spread();
  if (encode_ == nullptr || error.exit_code() != ExitCode::lost_peer || !(is_begun_ || may_begin) ||
      has_waited) {
    CollectiveFailure failure = error.failure();
    failure.step = trainer.variables().iterations;
    throw CollectiveError(std::move(failure));
  }
  for (std::size_t i = 0; i < trainer.replicas(); ++i) trainer.workspace(i).undo_step();
  trainer.forget_rank_state();  // some of it is lost
  keep(false);
  log_line(concat({error.what(), trainer.is_state_spread()         ? waits_and_restores
                                 : fit_.elastic_world() != nullptr ? keeps_its_state
                                                                   : waits_for_all}),
           LogLevel::warning);
}

template <class T>
void Recovery<T>::leave(FitRank<T>& rank, const FitEnd& end) {
  if (!end.leaves_world) return;
  Trainer<T>& trainer = fit_.trainer;
  trainer.gather_rank_state(rank.replica);
  if (trainer.variables().shares_updates()) {
    rank.replica.team_barrier();  // the first replica has counted the update
    if (!trainer.has_all_slots()) trainer.gather_slots(rank.replica);
  }
  if (rank.is_leader) leaves_world_ = true;
}

template <class T>
bool Recovery<T>::goes_on_elsewhere() {
  if (!std::exchange(leaves_world_, false)) return false;
  keep(true);
  fit_.trainer.release_slots();
  return true;
}

template <class T>
void Recovery<T>::restore_kept() {
  if (!kept_.empty()) restore_state(fit_.trainer, decode_(std::exchange(kept_, {})));
}

template <class T>
void Recovery<T>::take_place() {
  if (fit_.elastic_world() == nullptr) return;
  fit_.plan = fit_.plan_for_world();
  if (fit_.plan.steps_may_differ && fit_.is_chief())
    log_warning(
        "fit: the workers have changed, and share the training data by files, or not at "
        "all: in this pass, some samples may come twice, and others not; take "
        "AutoShardPolicy::data");
  const bool was_chief = std::exchange(was_chief_, fit_.is_chief());
  if (was_chief && !fit_.is_chief())
    abort_callbacks(fit_.callbacks, fit_.training);  // another worker saves from now on
  begins_as_chief_ = !was_chief && fit_.is_chief();
  fit_.progress.emplace(fit_.is_chief() ? fit_.options.verbose : 0, fit_.options.epochs);
}

}}}  // namespace lockstep::detail
