// Whether the training that writes a folder of checkpoints has ended.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Says that no more checkpoints will come, by a file named "training_ended" in the folder; to be called after the last one was
/// written. A trainer that is killed before has not ended, whoever starts it again. Throws Error naming the path.
void mark_training_ended(const std::string& directory);

/// Takes that back, where it was said: training begins, or goes on. Throws Error naming the path.
void mark_training_begun(const std::string& directory);

[[nodiscard]] bool training_has_ended(const std::string& directory);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/checkpoint/training_end.ipp"
#endif
