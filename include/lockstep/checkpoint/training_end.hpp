// Whether the training that writes a folder of checkpoints has ended.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Says, by a file named "training_ended" in the folder, that no more checkpoints will come. To be
/// called after the last one was written. A trainer that is killed before this has not ended.
/// Throws Error naming the path.
void mark_training_ended(const std::string& directory);

/// Removes that file, if there is one: training begins, or goes on. Throws Error naming the path.
void mark_training_begun(const std::string& directory);

[[nodiscard]] bool training_has_ended(const std::string& directory);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/training_end.ipp"
#endif
