// FitState: one call of fit, as the replicas of a process share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/fit_part.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/fit_requests.hpp"
#include "lockstep/training/history.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/recovery.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What is known about a fit's training data; 0 or empty: unknown.
struct SavedData {
  std::int64_t samples = 0;   ///< in the source
  std::int64_t checksum = 0;  ///< of some of them
  std::int64_t epoch_steps = 0;
  std::int64_t batch = 0;  ///< samples in a global batch; saved elsewhere (see TrainingPosition)
  std::string pipeline = {};
  std::vector<double> class_weight = {};

  /// Reads at most 16 samples, and none where each worker has its own data.
  [[nodiscard]] static SavedData of(const AnyDataset& train, const FitPlan& plan) {
    SavedData data{.class_weight = plan.class_weight};
    if (plan.steps_may_differ) return data;
    PipelineDescription description;
    train.describe(description);
    data.batch = description.batch_size;
    data.pipeline = std::move(description.text);
    if (!plan.counts_samples) data.epoch_steps = plan.target.value_or(0);
    try {
      const SourceFingerprint source = train.fingerprint();
      if (source.samples > 0) data.samples = source.samples;
      if (source.checked > 0) data.checksum = source.checksum;
    } catch (const std::exception&) {  // training names the sample, if it reads it
    }
    return data;
  }

  void save(TrainingState& saved) const {
    saved.samples = samples;
    saved.samples_checksum = checksum;
    saved.epoch_steps = epoch_steps;
    saved.pipeline = pipeline;
    saved.class_weight = class_weight;
  }
};

/// A pipeline's description without the sizes of its batches.
[[nodiscard]] inline std::string without_batch_sizes(std::string text) {
  constexpr std::string_view stage = "batch(";
  for (std::size_t at = 0; (at = text.find(stage, at)) != std::string::npos;) {
    at += stage.size();
    text.erase(at, text.find_first_not_of("0123456789", at) - at);
  }
  return text;
}

/// How a program differs from a saved training.
struct SavedDifferences {
  std::string text{};            ///< "22 samples of training data (this program has 40), ..."
  bool has_other_order = false;  ///< a place in the saved data means nothing in the program's
};

/// `seed`: the program's, if it sets one.
[[nodiscard]] inline SavedDifferences saved_differences(const TrainingState& saved,
                                                        const SavedData& mine,
                                                        const std::optional<std::uint64_t>& seed) {
  SavedDifferences found;
  const auto add = [&](TextPiece theirs, std::string_view what, TextPiece ours) {
    found.text += concat({found.text.empty() ? "" : ", ", theirs.view(), what,
                          " (this program has ", ours.view(), ")"});
  };
  const auto hex = [](std::int64_t checksum) {
    return hex_text(static_cast<std::uint64_t>(checksum), 8);
  };
  const auto differ = [](std::int64_t a, std::int64_t b) { return a != 0 && b != 0 && a != b; };
  if (seed && saved.seed != *seed) add(concat({"the seed ", saved.seed}), "", *seed);
  const bool has_other_size = differ(saved.samples, mine.samples);
  const bool has_other_samples = differ(saved.samples_checksum, mine.checksum);
  if (has_other_size)
    add(saved.samples, " samples of training data", mine.samples);
  else if (has_other_samples)
    add(concat({"training data with the checksum ", hex(saved.samples_checksum)}), "",
        hex(mine.checksum));
  // A different batch size changes the number of steps, and has its own message.
  const bool has_other_batch = differ(saved.global_batch, mine.batch);
  if (differ(saved.epoch_steps, mine.epoch_steps) && !has_other_batch)
    add(saved.epoch_steps, " steps an epoch", mine.epoch_steps);
  const bool are_known = !saved.pipeline.empty() && !mine.pipeline.empty();
  const bool has_other_pipeline =
      are_known && without_batch_sizes(saved.pipeline) != without_batch_sizes(mine.pipeline);
  if (has_other_pipeline)
    add(concat({"the pipeline ", in_quotes(saved.pipeline)}), "", in_quotes(mine.pipeline));
  const auto list = [](std::span<const double> weights) {
    std::string text;
    for (const double weight : weights) text += concat({text.empty() ? "" : ", ", weight});
    return text.empty() ? std::string("none") : text;
  };
  if (are_known && saved.class_weight != mine.class_weight)
    add(concat({"the class weights ", list(saved.class_weight)}), "", list(mine.class_weight));
  found.has_other_order = has_other_size || has_other_samples || has_other_pipeline;
  return found;
}

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
    // A fit within a fit cannot change worlds: the outer one takes a newcomer in.
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
    add_fit(saved);
    return saved;
  }
  [[nodiscard]] StateShare share(StateShare reused) const {
    StateShare share = share_of_state(trainer, std::move(reused), window.waiting > 0);
    if (is_chief()) add_fit(share.state);
    return share;
  }
  /// What a state has besides that of the model.
  void add_fit(TrainingState& saved) const {
    saved.callbacks = window.waiting > 0 && !window.callbacks_before.empty()
                          ? window.callbacks_before
                          : callbacks.save();
    saved.fit = trainer.fits();
    saved_place.save(saved);
    data.save(saved);
  }

  Trainer<T>& trainer;
  const AnyDataset& train;
  const FitOptions& options;
  CallbackHooks& callbacks;
  ModelTraining<T> training{trainer, this};  ///< this fit as callbacks see it
  FitPlan plan;
  FitRequests requests{};
  CallbackHooks::Presence any_rank_has{};  ///< all take part in what a callback of one needs
  UpdateWindow window{};
  TrainingPosition saved_place{};  ///< the place of a state saved now
  SavedData data{};                ///< only if states are saved from which training can go on
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

}}}  // namespace lockstep::detail
