#pragma once

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/training/adapt_pass.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate_pass.hpp"
#include "lockstep/training/fit_loop.hpp"
#include "lockstep/training/hook_errors.hpp"
#include "lockstep/training/model_training.hpp"
#include "lockstep/training/predict_pass.hpp"
#include "lockstep/training/served_fit.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
void Trainer<T>::catch_up() {
  ParameterServers* const servers = this->strategy().parameter_servers();
  if (servers != nullptr && servers->is_in_fit) pull_from_servers(*this, *servers);
}

/// Repeats the loop for as long as it survives the loss of a worker, or goes on with another one.
template <class T>
History run_until_together(Trainer<T>& trainer, FitLoop<T>& loop, bool is_nested) {
  for (bool together = true;;) {
    try {
      if (!together) {
        trainer.strategy().reconnect();
        loop.take_place();
      }
      trainer.strategy().run([&](AnyReplica& replica) {
        if (!together) trainer.start(replica);  // as the workers do that have been started again
        loop.run(replica);
      });
      together = !loop.goes_on_elsewhere();
      if (together) return loop.take_history();
    } catch (const CollectiveError& error) {
      if (is_nested) throw;  // it is for the outer fit to survive that
      loop.survive(error);
      together = false;
    }
  }
}

template <class T>
History Trainer<T>::fit(const AnyDataset& dataset, const FitOptions& options,
                        CallbackHooks& callbacks) {
  if (is_in_fit_)
    throw Error(
        "fit: this model is in fit already: a callback may use it for evaluate, predict, save, "
        "load_weights and "
        "set_weights, and fit another model");
  if (ParameterServers* const servers = this->strategy().parameter_servers();
      servers != nullptr && servers->is_server())
    serve_fits(*this, *servers);
  is_in_fit_ = true;
  ++this->variables().revision;
  struct Leave {
    bool& flag;
    ~Leave() { flag = false; }
  } const leave{is_in_fit_};
  const bool is_nested = this->strategy().is_running();
  FitLoop<T> loop(*this, dataset, options, callbacks);
  if (options.verbose == 2 && this->strategy().is_chief())
    log_line(concat(
        {"seed: ", this->variables().seed, "; replicas: ", this->strategy().num_replicas_in_sync(),
         " (", this->strategy().local_replicas(), " in each of ", this->strategy().num_workers(),
         " workers)", this->strategy().cluster_source().empty() ? "" : "; cluster: from ",
         this->strategy().cluster_source()}));
  try {
    return run_until_together(*this, loop, is_nested);
  } catch (...) {
    abort_callbacks(callbacks, loop.training());
    if (ParameterServers* const servers = this->strategy().parameter_servers())
      abandon_servers(*servers);
    throw;
  }
}

template <class T>
Logs Trainer<T>::evaluate(const AnyDataset& dataset, const EvaluateOptions& options,
                          CallbackHooks& callbacks) {
  const WorkerData mine("evaluate", dataset, this->pass_place());
  check_pass("evaluate", mine, this->program().layout().data, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(*this);
  ProgressBar progress(this->strategy().is_chief() ? options.verbose : 0);
  const std::int64_t batches = mine.steps();
  progress.begin_epoch(0, options.steps  ? options.steps
                          : batches >= 0 ? std::optional(batches)
                                         : std::nullopt);
  StatusBlock result(this->program().layout().metric_state);
  this->strategy().run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "evaluate");
    agree(replica.collective(), "evaluate", signature);
    BatchLoader<T> data(this->distribute(dataset, replica), this->program().layout().targets > 0);
    if (replica.local_rank() != 0) {
      evaluate_pass<T>(this->parts(replica), data, options.steps, nullptr);
      return;
    }
    callbacks.report_to(activity_board(replica.collective()));
    TestHooks<T> hooks(training, this->program(), callbacks, {.call = "evaluate"}, &progress);
    result = evaluate_pass(this->parts(replica), data, options.steps, &hooks, "evaluate");
  });
  if (result[StatusBlock::samples] == 0) throw DataError("evaluate: the data is empty");
  Logs logs;
  report(this->program(), result, logs);
  return logs;
}

template <class T>
std::vector<T> Trainer<T>::predict(const AnyDataset& dataset, const PredictOptions& options,
                                   CallbackHooks& callbacks) {
  const WorkerData mine("predict", dataset, this->pass_place(), AutoShardPolicy::data);
  check_pass("predict", mine, {.input = this->program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  ModelTraining<T> training(*this);
  std::vector<T> rows;
  const Activity where{.call = "predict"};
  call_hooks(callbacks, where, [&] { callbacks.on_predict_begin(training); });
  this->strategy().run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "predict");
    agree(replica.collective(), "predict", signature);
    BatchLoader<T> data(this->distribute(dataset, replica, AutoShardPolicy::data), false);
    const bool leader = replica.local_rank() == 0;
    PredictHooks hooks(training, callbacks, where);
    const std::int64_t made = predict_pass(this->parts(replica), data, options.steps,
                                           leader ? &rows : nullptr, leader ? &hooks : nullptr);
    if (replica.collective().rank() == 0) warn_of_missing_steps("predict", made, options.steps);
  });
  call_hooks(callbacks, where, [&] { callbacks.on_predict_end(training); });
  return rows;
}

template <class T>
void Trainer<T>::adapt(const AnyDataset& dataset, const AdaptOptions& options) {
  const WorkerData mine("adapt", dataset, this->pass_place());
  check_pass("adapt", mine, {.input = this->program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  Adapted done;
  this->strategy().run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "adapt");
    agree(replica.collective(), "adapt", signature);
    BatchLoader<T> data(this->distribute(dataset, replica), false);
    const Adapted by_this = adapt_pass(this->parts(replica), data, options.steps);
    if (replica.collective().rank() == 0)
      warn_of_missing_steps("adapt", by_this.batches, options.steps);
    if (replica.local_rank() == 0) done = by_this;
  });
  if (!done.had_data) throw DataError("adapt: the data is empty");
  if (done.layers == 0)
    throw ConfigurationError(
        "adapt: the model has no layer that is adapted to data, such as Normalization");
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
