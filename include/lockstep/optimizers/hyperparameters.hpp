// Checks of the optimizers' options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws ConfigurationError: "SGD: momentum is 1.5; expected a number in [0, 1)".
inline void require_option(bool valid, std::string_view optimizer, std::string_view option,
                           double value, std::string_view expected) {
  if (valid) return;
  throw ConfigurationError(std::string(optimizer) + ": " + std::string(option) + " is " +
                           number_text(value) + "; expected " + std::string(expected));
}

inline void require_not_negative(std::string_view optimizer, std::string_view option,
                                 double value) {
  require_option(value >= 0 && value <= 1e300, optimizer, option, value,
                 "a finite number of at least 0");
}

inline void require_count(std::string_view owner, std::string_view option, std::int64_t value,
                          std::int64_t least) {
  require_option(value >= least, owner, option, static_cast<double>(value),
                 "at least " + std::to_string(least));
}

inline void require_decay_rate(std::string_view optimizer, std::string_view option, double value) {
  require_option(value >= 0 && value < 1, optimizer, option, value, "a number in [0, 1)");
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
