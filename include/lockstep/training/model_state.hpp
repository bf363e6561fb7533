// The training state of a model: taken from its arrays, and put back into them.
#pragma once

#include <cstdint>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/training/replicated_model.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The state between two calls of fit. The arrays are put into the memory of `reused` where they
/// fit. `before_step`: within a window of steps, that before it (see Workspace::begin_step).
template <class T>
[[nodiscard]] TrainingState save_state(const ReplicatedModel<T>& model, TrainingState reused = {},
                                       bool before_step = false);
/// Whether this worker has all of it now. In a fit the optimizer's state may be with the servers,
/// or spread over the workers.
template <class T>
[[nodiscard]] bool has_whole_state(const ReplicatedModel<T>& model);
/// Bytes of all its arrays.
template <class T>
[[nodiscard]] std::uint64_t state_bytes(const ReplicatedModel<T>& model);
/// Throws ConfigurationError, having changed nothing, when `saved` belongs to another program.
template <class T>
void restore_state(ReplicatedModel<T>& model, const TrainingState& saved);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/training/model_state.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(TrainingState save_state(const ReplicatedModel<float>&, TrainingState, bool));
LOCKSTEP_INSTANCE(TrainingState save_state(const ReplicatedModel<double>&, TrainingState, bool));
LOCKSTEP_INSTANCE(bool has_whole_state(const ReplicatedModel<float>&));
LOCKSTEP_INSTANCE(bool has_whole_state(const ReplicatedModel<double>&));
LOCKSTEP_INSTANCE(std::uint64_t state_bytes(const ReplicatedModel<float>&));
LOCKSTEP_INSTANCE(std::uint64_t state_bytes(const ReplicatedModel<double>&));
LOCKSTEP_INSTANCE(void restore_state(ReplicatedModel<float>&, const TrainingState&));
LOCKSTEP_INSTANCE(void restore_state(ReplicatedModel<double>&, const TrainingState&));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
