// The training loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/callbacks/callback_hooks.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/position.hpp"
#include "lockstep/training/preemption_signals.hpp"
#include "lockstep/training/profile.hpp"
#include "lockstep/training/survivor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One call of fit. The object is shared by the replicas of a process; `run` is what each of them
/// does. Only the first replica of a process (the leader) calls callbacks and touches what is
/// shared. Meanwhile the others wait, take part in what a callback does with a model, or are in a
/// reduction that needs the leader.
template <class T>
class FitLoop final : public ModelTraining<T> {
  using Base = ModelTraining<T>;
  using Base::trainer_;
  using Status = StatusBlock;
  using Position = TrainingPosition;
  using Loader = BatchLoader<T>;

 public:
  FitLoop(Trainer<T>& trainer, const AnyDataset& train, const FitOptions& options,
          CallbackHooks& callbacks)
      : Base(trainer),
        train_(train),
        options_(options),
        callbacks_(callbacks),
        plan_(plan_fit(train, options, trainer.program().layout().data, trainer.place())),
        progress_(trainer.strategy().is_chief() ? options.verbose : 0, options.epochs) {
    at_.epoch = options.initial_epoch;
    if (!options.profile.empty())
      profile_.emplace(trainer.program().names().layers, trainer.strategy().local_replicas());
  }

  /// What fit returns. Throws Preempted when it was. (Not thrown by `run`: a strategy would take
  /// that for the failure of this worker and tell the others.)
  [[nodiscard]] History take_history() {
    if (preempted_ == ExitCode::success) return std::move(history_);
    throw Preempted(concat({"fit: stopped by ",
                            signals_                              ? signals_->name(preempted_)
                            : preempted_ == ExitCode::interrupted ? "SIGINT"
                                                                  : "SIGTERM",
                            " at epoch ", at_.epoch + 1, ", step ", at_.step}),
                    preempted_);
  }

  /// What each replica runs; ranks stay in step because every decision is taken from reduced
  /// figures.
  void run(AnyReplica& replica) {
    ActivityBoard* const board =
        replica.local_rank() == 0 ? activity_board(replica.collective()) : nullptr;
    const ActivityScope activity(board, {.call = "fit"});
    try {
      train(replica, board);
    } catch (const std::bad_alloc&) {
      throw Error(concat({to_string(board != nullptr ? board->get() : Activity{.call = "fit"}),
                          ": out of memory", limits_text(Resource::memory)}));
    }
  }

  /// After a failure of `run`: returns when it makes sense to connect anew and to run again; else
  /// throws the failure, with the step.
  void survive(const CollectiveError& error) {
    note_failure(error.failure());
    const bool has_waited = error.failure().operation == "start-up";  // in vain
    if (!survivor_.survives(error) || !restored_ || has_waited) {
      CollectiveFailure failure = error.failure();
      failure.step = trainer_.variables().iterations;
      throw CollectiveError(std::move(failure));
    }
    for (std::size_t i = 0; i < trainer_.replicas(); ++i) trainer_.workspace(i).undo_step();
    trainer_.forget_rank_state();  // some of it is lost
    if (!trainer_.variables().shares_updates())
      survivor_.keep([this] { return state(); });
    else if (this->is_chief() && read_backup_)  // the slots of the one that is lost are lost, too
      pending_ = read_backup_(trainer_.state_bytes());
    waits_without_signals_ = signals_.has_value();
    signals_.reset();  // while it waits, a signal ends the process
    log_line(concat(
        {error.what(), trainer_.variables().shares_updates()
                           ? "; this worker waits until all are together again, and goes on from "
                             "the last backup"
                           : "; this worker keeps its state and waits until all are together "
                             "again"}));
  }

  void stop_training() override { stop_ = true; }
  void set_parameters(std::span<const std::byte> parameters) override {
    Base::set_parameters(parameters);
    has_set_parameters_ = true;
  }
  void verify_after_step() override { verify_ = options_.verify_replicas || must_meet_to_save(); }
  [[nodiscard]] bool is_verified() const override { return is_verified_ || !must_meet_to_save(); }
  void preempt_on_signals() override {
    if (!signals_) signals_.emplace();
  }
  void request_preemption(ExitCode code) override {
    if (code != ExitCode::interrupted && code != ExitCode::terminated)
      throw ConfigurationError(
          concat({"request_preemption: the exit code must be ExitCode::interrupted (130) or "
                  "ExitCode::terminated (143), got ",
                  static_cast<int>(code)}));
    requested_ = code;
  }

  [[nodiscard]] std::span<const RankTime> rank_times() const override { return rank_times_; }
  [[nodiscard]] TrainingState state(TrainingState reused = {}) const override {
    trainer_.catch_up();
    TrainingState saved = trainer_.save_state(std::move(reused), waiting_ > 0);
    saved.callbacks =
        waiting_ > 0 && !callbacks_before_.empty() ? callbacks_before_ : callbacks_.save();
    at_.save(saved);
    return saved;
  }

  [[nodiscard]] std::int64_t steps_waiting() const override { return waiting_; }
  [[nodiscard]] std::int64_t steps_to_update() const override {
    return std::max<std::int64_t>(1, trainer_.variables().accumulation_steps() - accumulated_);
  }

  void restore(std::vector<std::byte> saved, DecodeState decode) override {
    pending_ = std::move(saved);
    decode_ = decode;
  }
  void rejoin_on_peer_loss(EncodeState encode, DecodeState decode) override {
    if (trainer_.variables().is_in_rounds())
      throw ConfigurationError(concat(
          {"OnPeerLoss::rejoin is not for ", trainer_.variables().synchronization().description(),
           ": a lost worker takes with it what its optimizer has learnt; with "
           "OnPeerLoss::fail, all workers that are started again go on from the last "
           "backup"}));
    if (!trainer_.strategy().can_reconnect()) return;
    survivor_.enable(encode);
    decode_ = decode;
  }
  void backup_for_rejoin(const ReadBackup& read) override { read_backup_ = read; }

 private:
  /// How an epoch's steps have ended.
  struct EpochEnd {
    bool finished = false;  ///< and training with them
    ExitCode preemption = ExitCode::success;
  };

  void train(AnyReplica& replica, ActivityBoard* board);
  void resume(AnyReplica& replica);
  void check_shares(AnyReplica& replica);
  void decide_plan(AnyReplica& replica);
  void decide_exchanges(AnyReplica& replica);
  [[nodiscard]] std::int64_t first_pass() const;
  void take_up(AnyReplica& replica, Loader& data, Position& at) const;
  EpochEnd train_epoch(const Parts<T>& parts, Updater<T>& updater, Loader& data, int epoch,
                       Position& at, Status& running);
  void end_step_alone(AnyReplica& replica, const Activity& place, Position& at, Loader& data,
                      Trace* trace);
  void keep_place(const Position& at, const Status& running, const Requests& asked);
  void tell_place(ParameterServers& servers, const Position& at, const Status& running);
  void verify(AnyReplica& replica);
  void gather_slots(AnyReplica& replica);
  Requests complete_epoch(AnyReplica& replica, int epoch, bool finished);
  void preempt(AnyReplica& replica, ExitCode code);
  void agree_on_parameters(AnyReplica& replica);
  void call_back(AnyReplica& replica, const Activity& place, FunctionRef<void()> f,
                 Trace* trace = nullptr);
  Status validate(AnyReplica& replica, Loader& data, int epoch);
  void end_epoch(int epoch, const Status& running, const Status* validated);
  [[nodiscard]] Requests requests(bool leader) const;
  Requests ask_all(AnyReplica& replica, bool leader) const;

  /// The state between two steps is complete only when all ranks have met for it.
  [[nodiscard]] bool must_meet_to_save() const {
    return trainer_.variables().is_in_rounds() || trainer_.ranks_differ() ||
           trainer_.variables().shares_updates() ||
           (options_.verify_replicas && trainer_.strategy().num_replicas_in_sync() > 1);
  }
  [[nodiscard]] std::size_t metric_state() const noexcept {
    return trainer_.program().layout().metric_state;
  }

  const AnyDataset& train_;
  const FitOptions& options_;
  CallbackHooks& callbacks_;
  FitPlan plan_;
  ProgressBar progress_;
  History history_;
  Logs logs_;
  std::optional<Profile> profile_;
  std::vector<RankTime> rank_times_;  // of the last epoch
  Position at_;
  Position next_place_;                  // for parameter servers
  std::int64_t accumulated_ = 0;         // steps of the open window
  std::int64_t waiting_ = 0;             // those of them that have not been carried into Variables
  std::vector<State> callbacks_before_;  // the window; empty: not kept
  bool stop_ = false;
  bool verify_ = false;       // asked for the next step
  bool is_verified_ = false;  // since the last step
  std::optional<PreemptionSignals> signals_;
  ExitCode requested_ = ExitCode::success;  // by request_preemption
  ExitCode preempted_ = ExitCode::success;
  std::vector<std::byte> pending_;
  DecodeState decode_ = nullptr;
  ReadBackup read_backup_;
  bool restored_ = false;  // the state is that of this training
  Survivor survivor_;
  bool waits_without_signals_ = false;
  bool has_validated_ = false;
  bool may_stop_in_batch_ = false;    // on some rank
  bool has_epoch_end_hooks_ = false;  // likewise
  bool has_train_end_hooks_ = false;  // likewise
  bool gathers_slots_ = false;        // callbacks of a rank may save
  bool has_set_parameters_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#include "lockstep/training/fit_loop.ipp"
