// One rate after the other.
#pragma once

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

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  [[nodiscard]] double operator()(std::int64_t step) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/optimizers/schedules/piecewise_constant_decay.ipp"
#endif
