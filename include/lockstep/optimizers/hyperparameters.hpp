// The options of optimizers: checks, and the learning rate, which is a number or a schedule.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Throws ConfigurationError: "SGD: momentum is 1.5; expected a number in [0, 1)".
void require_option(bool valid, std::string_view optimizer, std::string_view option, double value,
                    std::string_view expected);

void require_not_negative(std::string_view optimizer, std::string_view option, double value);

void require_count(std::string_view owner, std::string_view option, std::int64_t value,
                   std::int64_t least);

inline void require_decay_rate(std::string_view optimizer, std::string_view option, double value) {
  require_option(value >= 0 && value < 1, optimizer, option, value, "a number in [0, 1)");
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The learning rate as a function of the number of updates made before: `schedule(step)`, 0 for
/// the first update, is at least 0. It must give the same bits on all workers, so no std::cos,
/// std::pow and the like (see portable_functions.hpp), and may be called by several
/// threads at once. Optional: `schedule.validate()`, which throws ConfigurationError, and
/// `schedule.description()` with all options, which workers compare.
template <class S>
concept LearningRateSchedule = !std::convertible_to<S, double> && std::copy_constructible<S> &&
                               requires(const S& schedule, std::int64_t step) {
                                 { schedule(step) } -> std::convertible_to<double>;
                               };

/// An optimizer's learning rate: a number, a schedule, or a function of the number of updates. An
/// optimizer of your own that has a field of this type takes all of them.
/// @code
/// Adam{.learning_rate = 1e-3}
/// Adam{.learning_rate = CosineDecay{.initial_learning_rate = 1e-3, .decay_steps = 10'000}}
/// Adam{.learning_rate = [](std::int64_t step) { return step < 100 ? 1e-2 : 1e-3; }}
/// @endcode
class LearningRate {
 public:
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr LearningRate(Number rate) : initial_(static_cast<double>(rate)) {}

  /// Throws ConfigurationError for options that make no sense.
  template <class S>
    requires(!std::same_as<S, LearningRate> && LearningRateSchedule<S>)
  LearningRate(S schedule) {
    if constexpr (requires { schedule.validate(); }) schedule.validate();
    initial_ = static_cast<double>(schedule(0));
    Schedule all;
    if constexpr (requires { schedule.description(); })
      all.description = schedule.description();
    else  // a function is compared by some of its values
      all.description = describe("function", {{"0", initial_},
                                              {"100", static_cast<double>(schedule(100))},
                                              {"10000", static_cast<double>(schedule(10'000))}});
    all.rate = [s = std::move(schedule)](std::int64_t step) {
      return static_cast<double>(s(step));
    };
    schedule_ = copy(all);
  }
  constexpr LearningRate(const LearningRate& other)
      : initial_(other.initial_),
        schedule_(other.schedule_ != nullptr ? copy(*other.schedule_) : nullptr) {}
  constexpr LearningRate(LearningRate&& other) noexcept
      : initial_(other.initial_), schedule_(std::exchange(other.schedule_, nullptr)) {}
  constexpr LearningRate& operator=(LearningRate other) noexcept {
    initial_ = other.initial_;
    std::swap(schedule_, other.schedule_);
    return *this;
  }
  constexpr ~LearningRate() { delete schedule_; }

  /// The rate for the update after `step` updates.
  [[nodiscard]] double operator()(std::int64_t step) const {
    return schedule_ != nullptr ? schedule_->rate(step) : initial_;
  }
  /// The rate of the first update.
  constexpr operator double() const noexcept { return initial_; }

  [[nodiscard]] bool is_scheduled() const noexcept { return schedule_ != nullptr; }

  /// "0.001", or "CosineDecay(initial_learning_rate=0.001, ...)".
  [[nodiscard]] std::string description() const {
    return schedule_ != nullptr ? schedule_->description : number_text(initial_);
  }

 private:
  struct Schedule {
    std::function<double(std::int64_t)> rate;
    std::string description;
  };
  static Schedule* copy(const Schedule& schedule) { return new Schedule(schedule); }

  double initial_ = 0;
  Schedule* schedule_ = nullptr;  // owned, and not by a unique_ptr, which C++20 has in no constant
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/hyperparameters.ipp"
#endif
