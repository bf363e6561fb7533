#pragma once

#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/fit_state.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
Logs evaluate(Trainer<T>& trainer, const AnyDataset& dataset, const EvaluateOptions& options,
              CallbackHooks& callbacks) {
  const WorkerData mine("evaluate", dataset, trainer.pass_place());
  check_pass("evaluate", mine, trainer.program().layout().data, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(trainer);
  ProgressBar progress(trainer.strategy().is_chief() ? options.verbose : 0);
  const std::int64_t batches = mine.steps();
  progress.begin_epoch(0, options.steps  ? options.steps
                          : batches >= 0 ? std::optional(batches)
                                         : std::nullopt);
  StatusBlock result(trainer.program().layout().metric_state);
  trainer.strategy().run([&](AnyReplica& replica) {
    const CommonCall call(replica, "evaluate", signature);
    BatchLoader<T> data(trainer.distribute(dataset, replica), trainer.has_targets());
    if (replica.local_rank() != 0) {
      evaluate_pass<T>(trainer.parts(replica), data, options.steps, nullptr);
      return;
    }
    callbacks.report_to(replica.board());
    TestHooks<T> hooks(training, trainer.program(), callbacks, {.call = "evaluate"}, &progress);
    result = evaluate_pass(trainer.parts(replica), data, options.steps, &hooks, "evaluate");
  });
  if (result[StatusBlock::samples] == 0)
    throw DataError("evaluate: the data is empty" + mine.why_empty());
  Logs logs;
  report(trainer.program(), result, logs);
  return logs;
}

LOCKSTEP_INSTANCE(Logs evaluate(Trainer<LOCKSTEP_REAL>&, const AnyDataset&, const EvaluateOptions&,
                                CallbackHooks&));

template <class T>
std::vector<T> predict(Trainer<T>& trainer, const AnyDataset& dataset,
                       const PredictOptions& options, CallbackHooks& callbacks) {
  const WorkerData mine("predict", dataset, trainer.pass_place(), AutoShardPolicy::data);
  check_pass("predict", mine, {.input = trainer.program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(trainer);
  std::vector<T> rows;
  const Activity where{.call = "predict"};
  call_hooks(callbacks, where, [&] { callbacks.on_predict_begin(training); });
  trainer.strategy().run([&](AnyReplica& replica) {
    const CommonCall call(replica, "predict", signature);
    BatchLoader<T> data(trainer.distribute(dataset, replica, AutoShardPolicy::data), false);
    const bool leader = replica.local_rank() == 0;
    PredictHooks hooks(training, callbacks, where);
    const std::int64_t made = predict_pass(trainer.parts(replica), data, options.steps,
                                           leader ? &rows : nullptr, leader ? &hooks : nullptr);
    if (replica.collective().rank() == 0) warn_of_missing_steps("predict", made, options.steps);
    if (replica.collective().rank() == 0 && made == 0)
      log_warning("predict: the data is empty" + mine.why_empty());
  });
  call_hooks(callbacks, where, [&] { callbacks.on_predict_end(training); });
  return rows;
}

LOCKSTEP_INSTANCE(std::vector<LOCKSTEP_REAL> predict(Trainer<LOCKSTEP_REAL>&, const AnyDataset&,
                                                     const PredictOptions&, CallbackHooks&));

template <class T>
void adapt(Trainer<T>& trainer, const AnyDataset& dataset, const AdaptOptions& options) {
  const WorkerData mine("adapt", dataset, trainer.pass_place());
  check_pass("adapt", mine, {.input = trainer.program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  Adapted done;
  trainer.strategy().run([&](AnyReplica& replica) {
    const CommonCall call(replica, "adapt", signature);
    BatchLoader<T> data(trainer.distribute(dataset, replica), false);
    const Adapted by_this = adapt_pass(trainer.parts(replica), data, options.steps);
    if (replica.collective().rank() == 0)
      warn_of_missing_steps("adapt", by_this.batches, options.steps);
    if (replica.local_rank() == 0) done = by_this;
  });
  if (!done.had_data) throw DataError("adapt: the data is empty" + mine.why_empty());
  if (done.layers == 0)
    throw ConfigurationError(
        "adapt: the model has no layer that is adapted to data, such as Normalization");
}

LOCKSTEP_INSTANCE(void adapt(Trainer<LOCKSTEP_REAL>&, const AnyDataset&, const AdaptOptions&));
}}}  // namespace lockstep::detail
