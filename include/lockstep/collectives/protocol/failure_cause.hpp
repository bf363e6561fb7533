// The failure that ends a collective.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The failure that all ranks name: the first one that any thread of this rank knows of.
class FailureCause {
 public:
  /// Returns the one that counts.
  CollectiveFailure set(CollectiveFailure failure) {
    const std::lock_guard lock(mutex_);
    if (!is_set_) failure_ = std::move(failure);
    is_set_ = true;
    return failure_;
  }

  [[nodiscard]] bool is_set() const noexcept { return is_set_; }
  [[nodiscard]] CollectiveFailure get() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_set_ = false;
  CollectiveFailure failure_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
