// Weights from files of other models and of other programs.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/model/load_weights_options.hpp"
#include "lockstep/saving/wanted_array.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What load_weights puts into a model.
struct TransferredArrays {
  std::vector<std::optional<SavedArray>> arrays;  ///< for each variable; none: it keeps its value
  LoadedWeights report;
};

/// Finds the arrays of `wanted` in a file, by their names and as `options` say, and lays them out
/// as this library does, as `scalar`. Throws ConfigurationError naming the first variable that is
/// missing or of another shape, the first array that is none of the model's, and a rename that fits
/// no array; and when no variable is found at all. Throws DataError when an array's bytes do not
/// fit its shape.
[[nodiscard]] TransferredArrays transfer_arrays(std::vector<SavedArray> found,
                                                std::span<const WantedArray> wanted,
                                                std::string_view scalar,
                                                const LoadWeightsOptions& options);

/// One line for the log; empty when every variable was loaded and every array used.
[[nodiscard]] std::string report_text(const LoadedWeights& report);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/transfer.ipp"
#endif
