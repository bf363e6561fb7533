#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void require_option(bool valid, std::string_view optimizer, std::string_view option,
                                    double value, std::string_view expected) {
  if (valid) return;
  throw ConfigurationError(std::string(optimizer) + ": " + std::string(option) + " is " +
                           number_text(value) + "; expected " + std::string(expected));
}

LOCKSTEP_INLINE void require_not_negative(std::string_view optimizer, std::string_view option,
                                          double value) {
  require_option(value >= 0 && value <= 1e300, optimizer, option, value,
                 "a finite number of at least 0");
}

LOCKSTEP_INLINE void require_count(std::string_view owner, std::string_view option,
                                   std::int64_t value, std::int64_t least) {
  require_option(value >= least, owner, option, static_cast<double>(value),
                 "at least " + std::to_string(least));
}

}}}  // namespace lockstep::detail
