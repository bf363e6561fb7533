// Checks of the optimizers' options.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws ConfigurationError: "SGD: momentum is 1.5; expected a number in [0, 1)".
void require_option(bool valid, std::string_view optimizer, std::string_view option, double value,
                    std::string_view expected);

void require_not_negative(std::string_view optimizer, std::string_view option, double value);

void require_count(std::string_view owner, std::string_view option, std::int64_t value,
                   std::int64_t least);

inline void require_decay_rate(std::string_view optimizer, std::string_view option, double value) {
  require_option(value >= 0 && value < 1, optimizer, option, value, "a number in [0, 1)");
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/hyperparameters.ipp"
#endif
