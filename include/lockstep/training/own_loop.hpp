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

/// The number of the trainer's last start: what steps hold is of that one alone. Throws Error where
/// the trainer is in fit, or where the strategy has reconnected since (`connection` is that of the
/// replica).
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
