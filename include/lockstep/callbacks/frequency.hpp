// How often a callback acts: saves, or writes metrics of batches.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// When to save: at the end of every epoch, or every n steps.
class SaveFrequency {
 public:
  static constexpr std::int64_t epoch = 0;

  /// SaveFrequency::epoch (0), or a number of steps of at least 1. Throws ConfigurationError when
  /// negative.
  SaveFrequency(std::int64_t steps = epoch) : steps_(steps) {
    if (steps < 0)
      throw ConfigurationError(
          concat({"save_freq must be SaveFrequency::epoch or a number of steps of at least 1, got ",
                  steps}));
  }
  [[nodiscard]] bool at_epoch() const noexcept { return steps_ == epoch; }
  [[nodiscard]] bool at_step(std::int64_t iterations) const noexcept {
    return steps_ > 0 && iterations > 0 && iterations % steps_ == 0;
  }

 private:
  std::int64_t steps_;
};

/// When to write figures: at the end of every epoch alone, or every n batches as well.
class UpdateFrequency {
 public:
  static constexpr std::int64_t epoch = 0;
  static constexpr std::int64_t batch = 1;

  /// UpdateFrequency::epoch (0), UpdateFrequency::batch (1), or a number of batches. Throws
  /// ConfigurationError when negative.
  UpdateFrequency(std::int64_t batches = epoch) : batches_(batches) {
    if (batches < 0)
      throw ConfigurationError(
          concat({"update_freq must be UpdateFrequency::epoch, UpdateFrequency::batch or a number "
                  "of batches of at least 1, got ",
                  batches}));
  }
  /// `batches_made` counts from 1.
  [[nodiscard]] bool due(std::int64_t batches_made) const noexcept {
    return batches_ > 0 && batches_made % batches_ == 0;
  }

 private:
  std::int64_t batches_;
};

}}  // namespace lockstep
