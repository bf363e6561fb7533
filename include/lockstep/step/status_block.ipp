#pragma once

#include "lockstep/step/status_block.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void Requests::add(const Requests& later) noexcept {
  stop |= later.stop;
  verify |= later.verify;
  regroup |= later.regroup;
  if (preemption == ExitCode::success) preemption = later.preemption;
}

LOCKSTEP_INLINE void StatusBlock::ask(const Requests& requests) noexcept {
  values_[stop] = requests.stop ? 1 : 0;
  values_[interrupted] = requests.preemption == ExitCode::interrupted ? 1 : 0;
  values_[terminated] = requests.preemption == ExitCode::terminated ? 1 : 0;
  values_[values_.size() - 2] = requests.verify ? 1 : 0;
  values_.back() = requests.regroup ? 1 : 0;
}

LOCKSTEP_INLINE Requests StatusBlock::asked() const noexcept {
  return {.stop = values_[stop] > 0,
          .preemption = values_[terminated] > 0    ? ExitCode::terminated
                        : values_[interrupted] > 0 ? ExitCode::interrupted
                                                   : ExitCode::success,
          .verify = values_[values_.size() - 2] > 0,
          .regroup = values_.back() > 0};
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
