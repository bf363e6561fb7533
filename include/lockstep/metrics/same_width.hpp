// Checks of metrics: the widths of predictions and targets.
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

/// Throws DataError: "TopK: the model has 1 output; expected one for each of at least two classes".
inline void require_classes(std::string_view metric, std::size_t outputs) {
  if (outputs < 2)
    throw DataError(concat({metric, ": the model has ", outputs,
                            " output; expected one for each of at least two classes"}));
}

/// Throws DataError: "TopK: the data have 3 target values per sample; expected one class label".
inline void require_labels(std::string_view metric, std::size_t targets) {
  if (targets != 1)
    throw DataError(concat({metric, ": the data have ", targets,
                            " target values per sample; expected one class label"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
