// One rate after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/learning_rate.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Keras's PiecewiseConstantDecay: values[0] up to and including step boundaries[0], then values[1]
/// up to and including boundaries[1], and so on. Steps count updates, from 0.
struct PiecewiseConstantDecay {
  std::vector<std::int64_t> boundaries = {};  ///< not falling
  std::vector<double> values = {};            ///< one more than boundaries

  static constexpr std::string_view name = "PiecewiseConstantDecay";

  [[nodiscard]] std::string description() const {
    std::string list = number_text(values[0]);
    for (std::size_t i = 0; i < boundaries.size(); ++i)
      list += " until " + std::to_string(boundaries[i]) + " then " + number_text(values[i + 1]);
    return describe(name, {{"values", list}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (values.size() != boundaries.size() + 1)
      throw ConfigurationError("PiecewiseConstantDecay: " + std::to_string(boundaries.size()) +
                               " boundaries want one value more, got " +
                               std::to_string(values.size()) + " values");
    for (const double value : values) detail::require_not_negative(name, "a value", value);
    for (std::size_t i = 0; i < boundaries.size(); ++i)
      detail::require_count(name, "a boundary", boundaries[i], i == 0 ? 0 : boundaries[i - 1]);
  }

  [[nodiscard]] double operator()(std::int64_t step) const {
    return values[static_cast<std::size_t>(std::ranges::lower_bound(boundaries, step) -
                                           boundaries.begin())];
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
