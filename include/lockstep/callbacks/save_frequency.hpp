// When callbacks save.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// When to save: at the end of every epoch, or every so many steps.
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
    return steps_ > 0 && iterations % steps_ == 0;
  }

 private:
  std::int64_t steps_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
