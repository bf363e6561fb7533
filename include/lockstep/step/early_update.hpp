// The update of parameters while backward goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A Collective whose reduce_scatter may begin early.
template <class C, class T>
concept EarlyScatteringCollective = requires(C& collective, std::span<const double> status, std::span<const T> values) {
  collective.begin_reduce_scatter(status, values);
  collective.template advance_reduce_scatter<T>(std::size_t{0}, [](auto...) {});
};

/// Updates parameters as soon as backward is done with them, while they and their gradients are in the caches: those of a replica that
/// is alone, and those that the threads of a process share, each thread its part of what all have ready. `status` says whether there
/// is an update, and of how many samples. An object lives from the beginning of backward to the end of the step.
template <class Compiled, Collective C>
class EarlyUpdate {
 public:
  using T = typename Compiled::Scalar;
  using Status = typename Compiled::Status;

  /// `iteration`: of the optimizer, 1 for the first update.
  EarlyUpdate(const Compiled& compiled, C& collective, std::span<const T> gradients, const Status& status,
              std::int64_t iteration, bool stop_on_non_finite)
      : compiled_(compiled),
        collective_(collective),
        gradients_(gradients),
        status_(status),
        iteration_(iteration),
        stop_on_non_finite_(stop_on_non_finite) {}
  EarlyUpdate(const EarlyUpdate&) = delete;
  EarlyUpdate& operator=(const EarlyUpdate&) = delete;

  [[nodiscard]] bool is_alone() const noexcept { return collective_.size() == 1; }

  /// For the context of backward: variables_done.
  [[nodiscard]] BackwardProgress begin() {
    if (is_alone()) return {this, [](void* self, const void* end) { static_cast<EarlyUpdate*>(self)->alone(end); }};
    if constexpr (EarlyScatteringCollective<C, T>) {
      if (gradients_.size_bytes() < least_shared_bytes) return {};
      collective_.begin_reduce_scatter(std::span<const double>(status_.values()), gradients_);
      return {this, [](void* self, const void* end) { static_cast<EarlyUpdate*>(self)->together(end); }};
    }
    return {};
  }

  /// Updates what is left. For a replica that is alone; others reduce first.
  void finish() { update_until(gradients_.size()); }

 private:
  static constexpr std::size_t least = 8192;    // elements that are worth a call
  static constexpr std::size_t alignment = 16;  // of what optimizers are given
  // Smaller gradients wait in the caches of their threads; taking them from there during backward costs more than it saves.
  static constexpr std::size_t least_shared_bytes = std::size_t{4} << 20;

  [[nodiscard]] std::size_t count(const void* end) const noexcept {
    return static_cast<std::size_t>(static_cast<const T*>(end) - gradients_.data());
  }

  void alone(const void* end) {
    if (count(end) >= updated_ + least) update_until(count(end) / alignment * alignment);
  }
  void together(const void* end) {
    if constexpr (EarlyScatteringCollective<C, T>)
      collective_.template advance_reduce_scatter<T>(
          count(end), [this](auto sums, std::size_t offset, auto gradients) { update(sums, offset, gradients); });
  }

  // The first `end` parameters.
  void update_until(std::size_t end) {
    update(status_.values(), updated_, gradients_.subspan(updated_, end - updated_));
    updated_ = end;
  }

  void update(std::span<const double> sums, std::size_t offset, std::span<const T> gradients) const {
    if (Status::makes_update(sums, stop_on_non_finite_))
      compiled_.update(gradients, offset, sums[Status::samples], iteration_);
  }

  const Compiled& compiled_;
  C& collective_;
  const std::span<const T> gradients_;
  const Status status_;
  const std::int64_t iteration_;
  const bool stop_on_non_finite_;
  std::size_t updated_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
