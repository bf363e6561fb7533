// The update of parameters while backward goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The update of one step by a replica that is alone, and so waits for no sums: as soon as backward is done with a variable, while
/// variable and gradient are in the caches.
template <class Compiled>
class EarlyUpdate {
 public:
  using T = typename Compiled::Scalar;

  /// `iteration`: of the optimizer, 1 for the first update.
  EarlyUpdate(const Compiled& compiled, std::span<const T> gradients, double samples, std::int64_t iteration)
      : compiled_(compiled), gradients_(gradients), samples_(samples), iteration_(iteration) {}
  EarlyUpdate(const EarlyUpdate&) = delete;
  EarlyUpdate& operator=(const EarlyUpdate&) = delete;

  /// For the context of backward: variables_done.
  [[nodiscard]] BackwardProgress hook() noexcept {
    return {this, [](void* self, const void* end) {
              auto& update = *static_cast<EarlyUpdate*>(self);
              const auto count = static_cast<std::size_t>(static_cast<const T*>(end) - update.gradients_.data());
              if (count >= update.updated_ + least) update.update_until(count / alignment * alignment);
            }};
  }

  /// Updates what is left. (All of it, where the hook was not used.)
  void finish() { update_until(gradients_.size()); }

 private:
  static constexpr std::size_t least = 8192;    // elements that are worth a call
  static constexpr std::size_t alignment = 16;  // of what optimizers are given

  // The first `end` parameters.
  void update_until(std::size_t end) {
    compiled_.update(gradients_.subspan(updated_, end - updated_), updated_, samples_, iteration_);
    updated_ = end;
  }

  const Compiled& compiled_;
  const std::span<const T> gradients_;
  const double samples_;
  const std::int64_t iteration_;
  std::size_t updated_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
