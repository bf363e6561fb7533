// FitState: one call of fit, as the replicas of a process share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/fit_part.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/fit_requests.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/position.hpp"
#include "lockstep/training/recovery.hpp"
#include "lockstep/training/saved_data.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Steps whose gradients wait for one update, on this worker.
struct UpdateWindow {
  std::int64_t accumulated = 0;  ///< steps of the open window
  std::int64_t waiting = 0;      ///< those of them that have not been carried into Variables
  std::vector<State> callbacks_before{};  ///< callbacks before the window; empty: not kept
};

/// What the loop, its parts and the callbacks of one fit share. Only the first replica of a process
/// (the leader) calls callbacks and changes this. Meanwhile the others wait, take part in what a
/// callback does with a model, or are in a reduction that needs the leader.
template <class T>
struct FitState {
  FitState(Trainer<T>& used, const AnyDataset& train_data, const FitOptions& fit_options,
           CallbackHooks& hooks)
      : trainer(used),
        train(train_data),
        options(fit_options),
        callbacks(hooks),
        plan(plan_for_world()),
        progress(std::in_place, trainer.strategy().is_chief() ? options.verbose : 0,
                 options.epochs) {
    saved_place.epoch = options.initial_epoch;
  }

  /// In this place among the workers. Throws ConfigurationError or DataError.
  [[nodiscard]] FitPlan plan_for_world() const {
    FitPlan made = plan_fit(train, options, trainer.program().layout().data, trainer.place());
    const ElasticWorld* const world = elastic_world();
    if (world != nullptr && world->workers_of_batch() > 0)
      made.resize_batches(train, options, trainer.strategy().num_workers(),
                          world->workers_of_batch());
    return made;
  }
  [[nodiscard]] const ElasticWorld* elastic_world() const {
    return trainer.strategy().elastic_world();
  }
  [[nodiscard]] bool is_chief() const { return trainer.strategy().is_chief(); }
  [[nodiscard]] std::size_t metric_state() const noexcept {
    return trainer.program().layout().metric_state;
  }

  /// What a replica asks of all in the next step.
  [[nodiscard]] Requests requests_of(bool leader) const {
    if (!leader) return {};
    Requests next = requests.next();
    // A fit within another one has no way to another world: the outer one takes a newcomer in.
    next.regroup = !is_nested && elastic_world() != nullptr && elastic_world()->has_newcomer();
    return next;
  }
  /// The state between two steps is complete only when all ranks have met for it.
  [[nodiscard]] bool must_meet() const {
    return trainer.is_state_spread() || trainer.ranks_differ() ||
           (options.verify_replicas && trainer.strategy().num_replicas_in_sync() > 1);
  }
  /// See Training.
  [[nodiscard]] TrainingState state(TrainingState reused = {}) const {
    const bool in_window = window.waiting > 0;
    TrainingState saved = save_state(trainer, std::move(reused), in_window);
    saved.callbacks =
        in_window && !window.callbacks_before.empty() ? window.callbacks_before : callbacks.save();
    saved.fit = trainer.fits();
    saved_place.save(saved);
    data.save(saved);
    return saved;
  }

  Trainer<T>& trainer;
  const AnyDataset& train;
  const FitOptions& options;
  CallbackHooks& callbacks;
  ModelTraining<T> training{trainer, this};  ///< this fit as callbacks see it
  FitPlan plan;
  FitRequests requests{};
  CallbackHooks::Presence any_rank_has{};  ///< what a callback of one needs, all take part in
  UpdateWindow window{};
  TrainingPosition saved_place{};  ///< the place of a state saved now
  SavedData data{};                ///< where states are saved from which training goes on
  std::optional<ProgressBar> progress;
  History history{};
  Logs logs{};
  std::vector<RankTime> times{};  ///< of the last epoch
  bool has_set_parameters = false;
  bool has_validated = false;
  bool is_whole = false;  ///< a state that is saved now (see FitPart::complete)
  ExitCode preempted = ExitCode::success;
  const bool is_nested = trainer.strategy().is_running();  ///< in a callback of another fit
  Recovery<T> recovery{*this};
  std::vector<std::unique_ptr<FitPart<T>>> own_parts{};
  std::vector<FitPart<T>*> parts{};  ///< see add_parts
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
