#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/checkpoint.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void check_objects(std::size_t found, std::size_t expected) {
  if (found == expected) return;
  if (found == 0)
    throw ConfigurationError(concat(
        {"the file has a model alone, as Model::save, ModelCheckpoint and BackupAndRestore write "
         "it, this "
         "checkpoint has ",
         expected,
         " objects beside its model: restore the file by a Checkpoint(model), without objects"}));
  throw ConfigurationError(concat({"the file has the states of ", found,
                                   " objects beside the model, this checkpoint has ", expected}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
