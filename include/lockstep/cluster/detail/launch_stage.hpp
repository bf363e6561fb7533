// What a launcher does about the processes that live, and until when it waits before the next step.
#pragma once

#include <chrono>
#include <optional>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

enum class Stage {
  running,
  failing,   ///< one has failed, and the others may end by themselves
  stopping,  ///< they were told to
  killed
};

/// The stage of a launcher, and its deadline, if it has one.
class LaunchStage {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool is(Stage stage) const noexcept { return stage_ == stage; }
  [[nodiscard]] Clock::time_point began() const noexcept { return began_; }
  /// When the next stage comes.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept {
    if (is(Stage::failing) || is(Stage::stopping)) return deadline_;
    return std::nullopt;
  }

  void enter(Stage stage, std::chrono::milliseconds grace) {
    stage_ = stage;
    began_ = Clock::now();
    deadline_ = began_ + grace;
  }
  /// There is nothing left to wait for.
  void end_at(Clock::time_point now) noexcept { deadline_ = now; }

 private:
  Stage stage_ = Stage::running;
  Clock::time_point began_{};
  Clock::time_point deadline_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
