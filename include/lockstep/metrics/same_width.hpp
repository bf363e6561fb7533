// A check of metrics.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws DataError: "AUC: the model has 3 outputs and the data 1 target value per sample; expected
/// as many".
inline void require_same_width(std::string_view metric, std::size_t outputs, std::size_t targets) {
  if (outputs != targets)
    throw DataError(concat({metric, ": the model has ", outputs, " outputs and the data ", targets,
                            " target values per sample; expected as many"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
