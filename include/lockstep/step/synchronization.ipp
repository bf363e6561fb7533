#pragma once

#include "lockstep/step/synchronization.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE std::string Synchronization::description() const {
  if (!is_in_rounds()) return {};
  if (name_ == "LocalSGD") return describe(name_, {{"steps", steps_}});
  return describe(name_, {{"steps", steps_},
                          {"learning_rate", learning_rate_},
                          {"momentum", momentum_},
                          {"nesterov", nesterov_}});
}

LOCKSTEP_INLINE void Synchronization::validate() const {
  if (!is_in_rounds()) return;
  detail::require_count(name_, "steps", steps_, 1);
  detail::require_not_negative(name_, "learning_rate", learning_rate_);
  detail::require_decay_rate(name_, "momentum", momentum_);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
