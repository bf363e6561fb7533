// The training state of a model: taken from its arrays, and put back into them.
#pragma once

#include <cstdint>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/training/saved_arrays.hpp"
#include "lockstep/training/saved_signature.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;

/// The state between two calls of fit. The arrays are put into the memory of `reused` where they
/// fit. `before_step`: within a window of steps, that before it (see Workspace::begin_step).
template <class T>
[[nodiscard]] TrainingState save_state(const Trainer<T>& model, TrainingState reused = {},
                                       bool before_step = false);
/// Whether this worker has all of it now. In a fit the optimizer's state may be with the servers,
/// or spread over the workers.
template <class T>
[[nodiscard]] bool has_whole_state(const Trainer<T>& model);
/// Bytes of all its arrays.
template <class T>
[[nodiscard]] std::uint64_t state_bytes(const Trainer<T>& model);
/// Throws ConfigurationError, having changed nothing, when `saved` belongs to another program. The
/// chief logs what differs and is allowed.
template <class T>
void restore_state(Trainer<T>& model, const TrainingState& saved, const RestoreRules& rules = {});

// What states are made of.
template <class T>
ArrayList trained_arrays(const Program<T>& program, const Arena<T>& arena);
template <class T>
ArrayList untrained_arrays(const Program<T>& program, const Arena<T>& state);
/// The optimizer's slots, averages, and the outer optimizer's.
template <class T>
std::size_t slot_count(const Trainer<T>& model) noexcept;

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/model_state.ipp"
#endif
