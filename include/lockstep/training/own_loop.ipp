#pragma once

#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/training/own_loop.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
std::unique_ptr<ReplicaModel<T>> replica_model(Trainer<T>& trainer, AnyReplica& replica,
                                               typename ReplicaModel<T>::ToInput to_input) {
  refuse_rounds("on", trainer.variables());
  const Parts<T> parts = trainer.parts(replica);
  return std::make_unique<ReplicaModel<T>>(parts, trainer.updater(parts), to_input);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(std::unique_ptr<ReplicaModel<LOCKSTEP_REAL>> replica_model(
    Trainer<LOCKSTEP_REAL>&, AnyReplica&, ReplicaModel<LOCKSTEP_REAL>::ToInput));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
