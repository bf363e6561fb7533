// The table that Sequential::summary() gives.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// One layer of a model.
struct SummaryRow {
  std::string name;                         ///< "conv2d_1"
  std::string class_name;                   ///< "Conv2D"
  std::vector<std::size_t> output_extents;  ///< without the batch
  std::size_t trainable_parameters = 0;     ///< number of elements of all variables
  std::size_t non_trainable_parameters = 0;
};

/// The text that model.summary() prints in TensorFlow 2.11, character by character: 65 columns,
/// long names broken, totals with thousands separators. (Later versions print no separators and add
/// sizes in bytes.)
[[nodiscard]] std::string render_summary(std::string_view model_name,
                                         std::span<const SummaryRow> rows);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/network/summary.ipp"
#endif
