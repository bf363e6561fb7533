// What a rank is doing, for the messages of other ranks.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A place in a program. The texts must live as long as the program (string literals, for example).
struct Activity {
  const char* call = nullptr;  ///< the user's call that all ranks are in: "fit", "evaluate", "load"
  const char* part = nullptr;  ///< of that: "on_epoch_end of SaveImages", "reading data"; or null
  std::int64_t epoch = -1;     ///< from 0; -1: none
  std::int64_t step = -1;      ///< of the epoch, from 0; -1: none

  friend bool operator==(const Activity&, const Activity&) = default;
};

/// "fit, epoch 3, step 17, on_train_batch_end of SaveImages"; epochs and steps count from 1 there.
/// "no call" for none.
[[nodiscard]] inline std::string to_string(const Activity& activity) {
  std::string text = activity.call != nullptr ? activity.call : "no call";
  if (activity.epoch >= 0) text += concat({", epoch ", activity.epoch + 1});
  if (activity.step >= 0) text += concat({", step ", activity.step + 1});
  if (activity.part != nullptr) text += concat({", ", activity.part});
  return text;
}

/// One thread writes here what it does, and others read it. Any thread may call any member.
class ActivityBoard {
 public:
  void set(const Activity& activity) {
    const std::lock_guard lock(mutex_);
    activity_ = activity;
  }
  [[nodiscard]] Activity get() const {
    const std::lock_guard lock(mutex_);
    return activity_;
  }

 private:
  mutable std::mutex mutex_;
  Activity activity_;
};

/// Sets an activity, and restores the former one at its end. Without a board it does nothing.
class ActivityScope {
 public:
  ActivityScope(ActivityBoard* board, const Activity& activity) : board_(board) {
    if (board_ == nullptr) return;
    former_ = board_->get();
    board_->set(activity);
  }
  ~ActivityScope() {
    if (board_ != nullptr) board_->set(former_);
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  ActivityBoard* board_;
  Activity former_;
};

}}  // namespace lockstep
