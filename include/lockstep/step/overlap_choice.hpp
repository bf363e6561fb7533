// Whether the reduction of gradients shall overlap with backward.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// One replica's part in the choice. With Overlap::automatic some steps are measured without overlap: what could be won is the time of the
/// reduction, less the work in it where no core is free to do that, but no more than what is left of backward when the first
/// gradients are ready. The least of these figures counts, so that a rank that is late now and then does not. Then each rank votes,
/// and the majority decides for all, since all must reduce the same ranges.
class OverlapChoice {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::duration<double>;

  /// What a step took.
  struct Measured {
    Duration step{};
    Duration left_of_backward{};  ///< when the first gradients were ready
    Duration reduction{};
    Duration reduction_cpu{};  ///< of this thread, in it
  };

  static constexpr int warm_up_steps = 2;
  static constexpr int measured_steps = 8;
  /// Share of a step that must be won.
  static constexpr double worthwhile = 0.05;
  /// What work costs that takes turns with backward on one core, for caches and switches. (Measured with benchmarks/overlap.sh.)
  static constexpr double shared_core_cost = 1.5;

  /// Never.
  OverlapChoice() noexcept = default;
  OverlapChoice(Overlap overlap, bool has_spare_core) noexcept
      : overlaps_(overlap == Overlap::on),
        steps_left_(overlap == Overlap::automatic ? warm_up_steps + measured_steps : 0),
        has_spare_core_(has_spare_core) {}

  [[nodiscard]] bool overlaps() const noexcept { return overlaps_; }
  [[nodiscard]] bool is_measuring() const noexcept { return steps_left_ > 0; }
  /// What this rank adds to the votes of each step after the trial.
  [[nodiscard]] double vote() const noexcept { return votes_ ? 1 : 0; }
  /// The votes of all ranks in the step that has been reduced.
  void decide(double votes, int ranks) noexcept { overlaps_ = overlaps_ || 2 * votes > ranks; }

  // The marks of a measured step, in this order.
  void begin_step() noexcept {
    begin_ = Clock::now();
    first_ready_ = {};
  }
  /// Called whenever gradients are ready; the first time counts.
  void gradients_ready() noexcept {
    if (first_ready_ == Clock::time_point{}) first_ready_ = Clock::now();
  }
  void begin_reduction() noexcept {
    reduction_ = Clock::now();
    cpu_ = thread_time();
  }
  /// To be added.
  [[nodiscard]] Measured end_reduction() const noexcept {
    const auto end = Clock::now();
    return {.step = end - begin_,
            .left_of_backward = first_ready_ == Clock::time_point{} ? Duration{} : reduction_ - first_ready_,
            .reduction = end - reduction_,
            .reduction_cpu = thread_time() - cpu_};
  }

  void add(const Measured& measured) noexcept {
    if (--steps_left_ >= measured_steps) return;
    const Duration work = has_spare_core_ ? Duration{} : shared_core_cost * measured.reduction_cpu;
    const double won = std::min(measured.reduction - work, measured.left_of_backward) / measured.step;
    least_won_ = std::min(least_won_, won);
    votes_ = steps_left_ == 0 && least_won_ >= worthwhile;
  }

 private:
  [[nodiscard]] static Duration thread_time() noexcept {
    std::timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  bool overlaps_ = false;
  bool votes_ = false;
  int steps_left_ = 0;
  bool has_spare_core_ = false;
  double least_won_ = 1;
  Clock::time_point begin_{};
  Clock::time_point first_ready_{};  // default: not yet
  Clock::time_point reduction_{};
  Duration cpu_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
