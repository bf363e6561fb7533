#pragma once

#include <optional>
#include <string>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/auto_shard_policy.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/residual_scope.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/train_on_batch.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
Logs train_on_batch(Trainer<T>& trainer, const AnyDataset& batch) {
  if (trainer.is_in_fit())
    throw Error(
        "train_on_batch: this model is in fit: a callback may use test_on_batch and "
        "predict_on_batch of it");
  constexpr const char* call = "train_on_batch";
  refuse_rounds(call, trainer.variables());
  const WorkerData mine(call, batch, trainer.pass_place(), AutoShardPolicy::data);
  check_pass(call, mine, trainer.program().layout().data, std::nullopt);
  const std::string signature = pass_signature(mine, std::nullopt);
  Variables<T>& variables = trainer.variables();
  if (variables.shows_averages()) variables.swap_averages();
  const bool is_last = variables.accumulated_steps + 1 >= variables.accumulation_steps();
  bool has_updated = false;
  trainer.strategy().run([&](AnyReplica& replica) {
    const bool leader = replica.local_rank() == 0;
    ActivityBoard* const board = leader ? activity_board(replica.collective()) : nullptr;
    const ActivityScope activity(board, {.call = call});
    agree(replica.collective(), call, signature);
    const Parts<T> parts = trainer.parts(replica);
    BatchLoader<T> data(trainer.distribute(batch, replica, AutoShardPolicy::data),
                        trainer.program().layout().targets > 0);
    data.begin({.seed = variables.seed, .number = 0});
    parts.workspace.non_finite = {};
    const ResidualScope residuals(parts);
    const auto updater = choose_updater(parts);
    const std::int64_t accumulated = variables.accumulated_steps;
    const bool by_this =
        train_step(parts, *updater, data,
                   {.iteration = variables.iterations, .accumulated = accumulated, .board = board});
    if (!is_last) updater->carry(accumulated + 1);
    if (leader) has_updated = by_this;
  });
  const StatusBlock& status = trainer.workspace(0).status();
  if (is_last) variables.complete_update(variables.iterations + 1, has_updated);
  ++variables.revision;
  Logs logs;
  report(trainer.program(), status, logs);
  return logs;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
