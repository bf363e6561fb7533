// How long a rank waits for another one.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/collectives/control_channel.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// How long one wait goes on without a move, and who is to blame when it does not. The awaited ranks are asked whether they live:
/// before each report on stderr, so that it names the one that keeps everybody waiting and not one that waits itself, and in the middle
/// of the time. Who answers that it waits for somebody else gets twice the time.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  static constexpr Milliseconds report_interval{5000};
  static constexpr Milliseconds time_to_answer{1000};

  /// Who waits, in what.
  struct Waiter {
    int rank;
    Operation operation;
    Milliseconds timeout;
  };

  struct Advice {
    Milliseconds sleep{};                        ///< no longer than that
    int stalled = -1;                            ///< report that this rank keeps us waiting, if it is one
    Milliseconds idle{};                         ///< for so long
    std::optional<CollectiveFailure> failure{};  ///< give up
  };

  Patience(ControlChannel& control, const Waiter& waiter, Clock::time_point now)
      : control_(control), waiter_(waiter), last_move_(now) {}

  /// Something has moved.
  void restart(Clock::time_point now) noexcept {
    last_move_ = now;
    asked_ = false;
    next_report_ = report_interval;
    next_question_ = report_interval - time_to_answer;
  }

  /// Nothing has. `receiving` and `sending` are the ranks from and to which something must move, or -1, not both.
  [[nodiscard]] Advice next(int receiving, int sending, Clock::time_point now) {
    const int awaited[2] = {receiving, sending};
    control_.set_awaited(receiving >= 0 ? receiving : sending);
    const int ended = first_of(awaited, [](const Peer& p) { return p.goodbye; });
    if (ended >= 0 && !std::exchange(has_ended_, true)) restart(now);  // what it sent before may still be on its way

    Advice advice;
    const Milliseconds half = waiter_.timeout / 2;
    const auto idle = advice.idle = std::chrono::duration_cast<Milliseconds>(now - last_move_);
    if (idle >= next_report_) {  // before they are asked anew
      next_report_ += report_interval;
      advice.stalled = silent(awaited);
    }
    if (!asked_ && (idle >= half || idle >= next_question_)) {
      asked_ = idle >= half;
      next_question_ += report_interval;
      for (const int other : awaited)
        if (other >= 0) control_.ask(other);
    }
    const Milliseconds limit = ended >= 0             ? std::min(waiter_.timeout, Milliseconds(5000))
                               : silent(awaited) >= 0 ? waiter_.timeout
                                                      : 2 * waiter_.timeout;
    if (idle >= limit) advice.failure = ended >= 0 ? after_its_end(ended, waiter_) : too_late(awaited, idle);
    advice.sleep =
        std::max(Milliseconds(1), std::min(asked_ ? limit : std::min(half, next_question_), next_report_) - idle);
    return advice;
  }

  /// Somebody still needs a rank that has come to its end.
  [[nodiscard, gnu::cold]] static CollectiveFailure after_its_end(int other, const Waiter& waiter) {
    CollectiveFailure failure;
    failure.failed_rank = other;
    failure.reason = concat({"came to its end while rank ", waiter.rank, " in ", to_string(waiter.operation),
                             " still waits for it; all ranks must run the same number of steps"});
    failure.code = ExitCode::failure;  // it would happen again
    return failure;
  }

 private:
  using Peer = ControlChannel::Peer;

  // The first of the awaited ranks for which `condition` holds, or -1.
  template <class Condition>
  [[nodiscard]] int first_of(const int (&awaited)[2], Condition condition) const noexcept {
    for (const int other : awaited)
      if (other >= 0 && condition(std::as_const(control_).peer(other))) return other;
    return -1;
  }
  // The rank that hangs: the one that has not answered.
  [[nodiscard]] int silent(const int (&awaited)[2]) const noexcept {
    return first_of(awaited, [](const Peer& p) { return !p.answered; });
  }

  [[nodiscard, gnu::cold]] CollectiveFailure too_late(const int (&awaited)[2], Milliseconds idle) const {
    CollectiveFailure failure;
    failure.failed_rank = silent(awaited);
    if (failure.failed_rank >= 0) {  // (Without a word of this rank: two that notice it at once say the same.)
      failure.reason =
          concat({"was silent for more than ", waiter_.timeout.count(), " ms (CommunicationOptions::timeout)"});
      return failure;
    }
    failure.failed_rank = awaited[0] >= 0 ? awaited[0] : awaited[1];
    failure.reason =
        concat({"kept rank ", waiter_.rank, " in ", to_string(waiter_.operation), " waiting for ", idle.count(),
                " ms (CommunicationOptions::timeout is ", waiter_.timeout.count(), " ms), while it waited for rank ",
                control_.peer(failure.failed_rank).waits_for, " itself"});
    return failure;
  }

  ControlChannel& control_;
  Waiter waiter_;
  Clock::time_point last_move_;
  bool asked_ = false;
  bool has_ended_ = false;
  Milliseconds next_report_ = report_interval;
  Milliseconds next_question_ = report_interval - time_to_answer;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
