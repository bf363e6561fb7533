#pragma once

#include "lockstep/training/fit_options.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE ValidationFrequency::ValidationFrequency(int every) : every_(every) {
  if (every < 1)
    throw ConfigurationError(concat({"fit: validation_freq must be at least 1, got ", every}));
}

LOCKSTEP_INLINE bool ValidationFrequency::due(int epoch) const noexcept {
  if (every_ > 0) return (epoch + 1) % every_ == 0;
  for (const int listed : epochs_)
    if (listed == epoch + 1) return true;
  return false;
}

LOCKSTEP_INLINE std::string ValidationFrequency::description() const {
  if (every_ > 0) return concat({every_});
  std::string text;
  for (const int listed : epochs_) text += concat({text.empty() ? "" : ", ", listed});
  return "[" + text + "]";
}

}  // namespace lockstep::inline LOCKSTEP_ABI
