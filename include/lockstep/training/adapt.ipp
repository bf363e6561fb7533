#pragma once

#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/training/adapt.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/evaluate.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/loops.hpp"
#include "lockstep/training/trainer.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
void adapt(Trainer<T>& trainer, const AnyDataset& dataset, const AdaptOptions& options) {
  const WorkerData mine("adapt", dataset, trainer.pass_place());
  check_pass("adapt", mine, {.input = trainer.program().layout().data.input}, options.steps);
  const std::string signature = pass_signature(mine, options.steps);
  Adapted done;
  trainer.strategy().run([&](AnyReplica& replica) {
    const auto activity = show_call(replica, "adapt");
    agree(replica, "adapt", signature);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(void adapt(Trainer<LOCKSTEP_REAL>&, const AnyDataset&, const AdaptOptions&));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
