// What a Trainer gives to the program's own loops.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/core/config.hpp"
#include "lockstep/step/replica_model.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;

/// Returns the number of the trainer's last start; steps made before it hold what is gone. Throws
/// Error while the trainer is in fit, and if the strategy has reconnected since that start.
/// `connection`: the replica's.
template <class T>
[[nodiscard]] std::int64_t start_of_steps(const Trainer<T>& trainer, int connection);

/// The single steps of the trainer's program on a replica, which must outlive it.
template <class T>
[[nodiscard]] std::unique_ptr<ReplicaModel<T>> replica_model(
    Trainer<T>& trainer, AnyReplica& replica, typename ReplicaModel<T>::ToInput to_input);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/own_loop.ipp"
#endif
