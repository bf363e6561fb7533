#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/own_loop.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
std::int64_t start_of_steps(const Trainer<T>& trainer, int connection) {
  if (trainer.is_in_fit())
    throw Error(
        "on: this model is in fit, which has steps of its own: a callback may use steps of another "
        "model");
  if (connection != trainer.connection())
    throw Error(
        "on: the strategy has reconnected since this model was compiled: compile it anew, as a "
        "program that was just started does");
  return trainer.starts();
}

template <class T>
std::unique_ptr<ReplicaModel<T>> replica_model(Trainer<T>& trainer, AnyReplica& replica,
                                               typename ReplicaModel<T>::ToInput to_input) {
  refuse_rounds("on", trainer.variables());
  const Parts<T> parts = trainer.parts(replica);
  return std::make_unique<ReplicaModel<T>>(parts, trainer.updater(parts), to_input);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(std::int64_t start_of_steps(const Trainer<LOCKSTEP_REAL>&, int));
LOCKSTEP_INSTANCE(std::unique_ptr<ReplicaModel<LOCKSTEP_REAL>> replica_model(
    Trainer<LOCKSTEP_REAL>&, AnyReplica&, ReplicaModel<LOCKSTEP_REAL>::ToInput));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
