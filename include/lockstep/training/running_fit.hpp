// RunningFit: one call of fit, as callbacks see it and as the replicas of a process share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/callbacks/callback_hooks.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/fit_requests.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/position.hpp"
#include "lockstep/training/profile.hpp"
#include "lockstep/training/saved_data.hpp"
#include "lockstep/training/survivor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a callback of one rank needs from all ranks, as they may have different callbacks.
struct HooksOfAnyRank {
  bool stop_in_batch = false;
  bool epoch_end = false;
  bool train_end = false;
  bool complete_state = false;
};

/// Steps whose gradients wait for one update, on this worker.
struct UpdateWindow {
  std::int64_t accumulated = 0;  ///< steps of the open window
  std::int64_t waiting = 0;      ///< those of them that have not been carried into Variables
  std::vector<State> callbacks_before{};  ///< callbacks before the window; empty: not kept
};

/// From what training goes on, at its beginning and when a peer was lost.
struct Recovery {
  std::vector<std::byte> pending{};  ///< a saved state that is to be restored
  std::exception_ptr unreadable{};   ///< why there is none
  DecodeState decode = nullptr;
  ReadBackup read_backup{};
  Survivor survivor{};
  bool is_begun = false;         ///< the model's state is that of this training
  bool leaves_world = false;     ///< a worker has come, and all go on in another world
  bool was_chief = false;        ///< in the last world
  bool begins_as_chief = false;  ///< in this one
};

/// One call of fit. The object is shared by the replicas of a process. Only the first of them (the
/// leader) calls callbacks and touches what is shared. Meanwhile the others wait, take part in what
/// a callback does with a model, or are in a reduction that needs the leader.
template <class T>
class RunningFit final : public ModelTraining<T> {
  using Base = ModelTraining<T>;
  using Base::trainer_;

 public:
  RunningFit(Trainer<T>& trainer, const AnyDataset& train_data, const FitOptions& fit_options,
             CallbackHooks& hooks)
      : Base(trainer),
        train(train_data),
        options(fit_options),
        callbacks(hooks),
        plan(plan_for(train)),
        progress(std::in_place, trainer.strategy().is_chief() ? options.verbose : 0,
                 options.epochs) {
    at.epoch = options.initial_epoch;
    recovery.was_chief = trainer.strategy().is_chief();
    if (const ElasticWorld* const world = trainer.strategy().elastic_world())
      survive_losses(world->encode_state(), world->decode_state());
    if (!options.profile.empty())
      profile.emplace(trainer.program().names().layers, trainer.strategy().local_replicas());
  }

  // What callbacks see and do.

  void stop_training() override { requests.stop(); }
  void set_parameters(std::span<const std::byte> parameters) override {
    Base::set_parameters(parameters);
    has_set_parameters = true;
  }
  void verify_after_step() override {
    requests.verify(options.verify_replicas || must_meet_to_save());
  }
  [[nodiscard]] bool is_verified() const override { return is_verified_ || !must_meet_to_save(); }
  void preempt_on_signals() override { requests.preempt_on_signals(); }
  void request_preemption(ExitCode code) override { requests.preempt(code); }
  [[nodiscard]] std::span<const RankTime> rank_times() const override { return times; }

  [[nodiscard]] TrainingState state(TrainingState reused = {}) const override {
    trainer_.catch_up();
    TrainingState saved = save_state(trainer_, std::move(reused), window.waiting > 0);
    saved.callbacks = window.waiting > 0 && !window.callbacks_before.empty()
                          ? window.callbacks_before
                          : callbacks.save();
    at.save(saved);
    data.save(saved);
    return saved;
  }
  [[nodiscard]] std::int64_t steps_waiting() const override { return window.waiting; }
  [[nodiscard]] std::int64_t steps_to_update() const override {
    return std::max<std::int64_t>(1,
                                  trainer_.variables().accumulation_steps() - window.accumulated);
  }

  void restore(std::vector<std::byte> saved, DecodeState decode) override {
    recovery.pending = std::move(saved);
    recovery.decode = decode;
  }
  void cannot_restore(const std::exception_ptr& reason) override {
    if (!takes_over()) std::rethrow_exception(reason);
    recovery.unreadable = reason;
  }
  [[nodiscard]] bool restored_beyond_the_end() const override { return at.epoch > options.epochs; }
  void rejoin_on_peer_loss(EncodeState encode, DecodeState decode) override {
    survive_losses(encode, decode);
  }
  [[nodiscard]] bool is_elastic() const override {
    return trainer_.strategy().elastic_world() != nullptr;
  }
  [[nodiscard]] bool takes_over() const override {
    return is_elastic() && trainer_.strategy().elastic_world()->is_successor();
  }
  void backup_for_rejoin(const ReadBackup& read) override { recovery.read_backup = read; }

  // What the loop does with it.

  [[nodiscard]] Trainer<T>& trainer() const noexcept { return trainer_; }
  /// In this place among the workers. Throws ConfigurationError or DataError.
  [[nodiscard]] FitPlan plan_for(const AnyDataset& dataset) const {
    FitPlan made = plan_fit(dataset, options, trainer_.program().layout().data, trainer_.place());
    const ElasticWorld* const world = trainer_.strategy().elastic_world();
    if (world != nullptr && world->workers_of_batch() > 0)
      made.resize_batches(dataset, options, trainer_.strategy().num_workers(),
                          world->workers_of_batch());
    return made;
  }
  [[nodiscard]] std::size_t metric_state() const noexcept {
    return trainer_.program().layout().metric_state;
  }

  /// Calls hooks on the first replica when all replicas of the process have come, while the others
  /// may take part in what a callback does with a model. All of them see what a callback changes.
  void call_back(AnyReplica& replica, const Activity& place, FunctionRef<void()> f,
                 Trace* trace = nullptr);
  /// What this rank asks in the next step.
  [[nodiscard]] Requests requests_of(bool leader) const {
    if (!leader) return {};
    Requests next = requests.next();
    // A fit within another one has no way to another world: the outer one takes a newcomer in.
    next.regroup =
        !is_nested_ && is_elastic() && trainer_.strategy().elastic_world()->has_newcomer();
    return next;
  }
  /// Agrees on the requests between two steps or epochs.
  [[nodiscard]] Requests ask_all(AnyReplica& replica) const;
  /// All replicas of the process compare what they have where the options want it (see
  /// verify_replicas), and the chief gets what callbacks save next.
  void verify(AnyReplica& replica);
  /// A step begins: what was compared is out of date.
  void forget_verified() noexcept {
    is_verified_ = false;
    trainer_.release_slots();
  }
  void gather_slots(AnyReplica& replica) const;
  /// The chief gets the whole state, for the workers that go on in another world.
  void bring_slots_together(AnyReplica& replica) const;

  const AnyDataset& train;
  const FitOptions& options;
  CallbackHooks& callbacks;
  FitPlan plan;
  FitRequests requests;
  HooksOfAnyRank any_rank_has;
  UpdateWindow window;
  Recovery recovery;
  TrainingPosition at;  ///< the place of a state that is saved now
  SavedData data;       ///< the chief's, where states are saved from which training goes on
  std::optional<ProgressBar> progress;
  History history;
  Logs logs;
  std::optional<Profile> profile;
  std::vector<RankTime> times;  ///< of the last epoch
  bool has_set_parameters = false;

 private:
  void survive_losses(EncodeState encode, DecodeState decode) {
    if (!trainer_.strategy().can_reconnect()) return;
    recovery.survivor.enable(encode);
    recovery.decode = decode;
  }

  /// The state between two steps is complete only when all ranks have met for it.
  [[nodiscard]] bool must_meet_to_save() const {
    return trainer_.variables().is_in_rounds() || trainer_.ranks_differ() ||
           trainer_.variables().shares_updates() ||
           (options.verify_replicas && trainer_.strategy().num_replicas_in_sync() > 1);
  }

  bool is_verified_ = false;                                 // since the last step
  const bool is_nested_ = trainer_.strategy().is_running();  // in a callback of another fit
};

/// True on every rank when `mine` is true on any.
[[nodiscard]] bool any_rank(AnyReplica& replica, bool mine);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#include "lockstep/training/running_fit.ipp"
