// How long a rank waits for another.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// One wait for other ranks: which rank to ask whether it lives, what to say meanwhile, and when to
/// give up. There are two limits:
/// - `timeout` is for **silence**: a rank that is asked again and again and does not answer,
///   because its process is stopped or the network is cut.
/// - `progress_limit` is for a rank that answers and yet keeps this one waiting: it is busy, or it
///   hangs in the user's program. A rank that answers that it waits for another itself gets a
///   little longer, so that the error names the rank that hangs.
/// Every five seconds a report says which rank keeps this one waiting, and what it is doing. If
/// that rank waits itself, the report names the rank at the end of the chain.
class WaitPolicy {
 public:
  using Clock = ControlChannel::Clock;
  using Milliseconds = std::chrono::milliseconds;

  /// The rank that waits, and in which operation.
  struct Waiter {
    int rank;
    const char* doing;  ///< "in all_reduce"
    Milliseconds timeout;
    Milliseconds progress_limit;
    const WorkerNames& names;
    const ActivityBoard* board = nullptr;  ///< what it does itself
    bool at_end = false;                   ///< it has ended itself, so others may have, too
  };

  struct Advice {
    std::string report{};                        ///< to be said, unless empty
    int reported = -1;                           ///< the rank that hangs or is busy, in the report
    std::optional<CollectiveFailure> failure{};  ///< give up
    bool is_silence = false;                     ///< the reason for that
  };

  WaitPolicy(const Waiter& waiter, Clock::time_point now)
      : waiter_(waiter),
        interval_(look_interval(waiter.timeout)),
        begin_(now),
        received_(now),
        last_move_(now),
        next_look_(now + interval_),
        reports_(now) {}

  /// Something has moved; `received`: from the rank that this one receives from. (What was sent may
  /// have reached no more than the kernel.)
  void moved(Clock::time_point now, bool received) noexcept {
    last_move_ = now;
    reports_.restart(now);
    if (received) received_ = now;
  }

  /// Whether it is time for look(). Costs nothing, so that it can be called before each short wait.
  [[nodiscard]] bool is_due(Clock::time_point now) const noexcept { return now >= next_look_; }
  /// How long to sleep.
  [[nodiscard]] Milliseconds left(Clock::time_point now) const noexcept {
    return std::max(Milliseconds(1), std::chrono::ceil<Milliseconds>(next_look_ - now));
  }

  /// `receiving` and `sending` are the ranks from and to which something must move, or -1, not
  /// both.
  [[nodiscard, gnu::cold]] Advice look(ControlChannel& control, int receiving, int sending,
                                       Clock::time_point now) {
    Advice advice;
    next_look_ = now + interval_;
    receiving_ = receiving;
    const auto idle = std::chrono::duration_cast<Milliseconds>(now - last_move_);
    const int ended = receiving >= 0 && control.peer(receiving).goodbye ? receiving
                      : sending >= 0 && control.peer(sending).goodbye   ? sending
                                                                        : -1;
    if (ended >= 0 && !waiter_.at_end) {
      await_ended(ended, now, advice);
      return advice;
    }

    const int silent = first_silent(control, receiving, sending, now);
    if (silent >= 0) {
      // (This rank is not mentioned, so that two ranks that notice it at once say the same.)
      advice.failure = {.failed_rank = silent, .reason = was_silent(waiter_.timeout.count())};
      advice.is_silence = true;
      return advice;
    }
    const int culprit = find_culprit(control, receiving, sending, now);
    const bool waits_itself = culprit < 0;
    const int named = waits_itself ? (receiving >= 0 ? receiving : sending) : culprit;
    const Milliseconds limit =
        waits_itself ? waiter_.progress_limit +
                           std::min<Milliseconds>(waiter_.progress_limit, report_interval)
                     : waiter_.progress_limit;
    if (idle >= limit) {
      advice.failure = {
          .failed_rank = named,
          .reason = made_no_progress(waiter_.progress_limit, state(control.peer(named)))};
      return advice;
    }
    if (reports_.is_due(now)) {
      advice.report = report(control, named, idle, now);
      advice.reported = culprit;
    }
    // All answer, and wait for each other: perhaps the network loses what is large. Others may ask
    // so a little earlier, after which their answers do not come.
    const Milliseconds patience = std::min<Milliseconds>(report_interval, limit / 4);
    const bool waits_long = idle >= patience / 2;
    for (const int other : {receiving, sending})
      if (can_ask(control, other, now, waits_long))
        control.ask(other, now, waits_itself && waits_long, waits_itself && idle >= patience);
    if (culprit != receiving && culprit != sending && can_ask(control, culprit, now, false))
      control.ask(culprit, now);
    const auto until = [&](Clock::time_point event) {
      next_look_ = std::clamp(event, now, next_look_);
    };
    until(last_move_ + limit);
    until(reports_.due());
    for (const int other : {receiving, sending})
      if (other >= 0) until(silent_since(control, other) + waiter_.timeout);
    return advice;
  }

  /// A rank that has ended although this one still needs it.
  [[nodiscard, gnu::cold]] static CollectiveFailure after_its_end(int other, const Waiter& waiter) {
    const Activity activity = waiter.board != nullptr ? waiter.board->get() : Activity{};
    const std::string call = activity == Activity{} ? std::string() : to_string(activity);
    return {.failed_rank = other,
            .reason = came_to_its_end(waiter.names.shortly(waiter.rank), waiter.doing, call),
            .code = ExitCode::failure};  // it would happen again
  }

 private:
  using Peer = ControlChannel::Peer;

  // Often enough for several questions within `timeout`, and seldom enough to cost nothing.
  static Milliseconds look_interval(Milliseconds timeout) noexcept {
    return std::clamp(timeout / 4, Milliseconds(1), Milliseconds(1000));
  }

  // What it sent before its end may still be on its way.
  void await_ended(int ended, Clock::time_point now, Advice& advice) {
    if (!ended_since_) ended_since_ = now;
    const auto end =
        std::max(*ended_since_, last_move_) + std::min(waiter_.timeout, Milliseconds(5000));
    if (now >= end) advice.failure = after_its_end(ended, waiter_);
    next_look_ = std::min(next_look_, end);
  }

  [[nodiscard]] Clock::time_point last_heard(const ControlChannel& control, int other) const {
    return std::max(control.peer(other).heard, other == receiving_ ? received_ : begin_);
  }
  // Nothing is known about a rank that was not asked for a long time.
  [[nodiscard]] Clock::time_point silent_since(const ControlChannel& control, int other) const {
    return std::max(last_heard(control, other), control.peer(other).asked - interval_);
  }
  [[nodiscard]] bool is_silent(const ControlChannel& control, int other, Milliseconds least,
                               Clock::time_point now) const {
    return !control.peer(other).answered && now - silent_since(control, other) >= least;
  }
  [[nodiscard]] int first_silent(const ControlChannel& control, int receiving, int sending,
                                 Clock::time_point now) const {
    for (const int other : {receiving, sending})
      if (other >= 0 && is_silent(control, other, waiter_.timeout, now)) return other;
    return -1;
  }

  // Unless it is gone, or something of it has come just now and that is enough.
  [[nodiscard]] bool can_ask(const ControlChannel& control, int other, Clock::time_point now,
                             bool in_any_case) const {
    return other >= 0 && !control.peer(other).gone &&
           (in_any_case || now - last_heard(control, other) >= interval_ / 2);
  }

  // The rank that keeps all others waiting: an awaited rank that does not answer, else one that
  // does not wait itself, else the one at the end of the chain that begins with an awaited rank;
  // -1: they wait for each other, or for this rank.
  [[nodiscard]] int find_culprit(const ControlChannel& control, int receiving, int sending,
                                 Clock::time_point now) const {
    for (const int other : {receiving, sending})
      if (other >= 0 && is_silent(control, other, interval_ * 3 / 2, now)) return other;
    for (const int first : {receiving, sending}) {
      int other = first;
      for (int i = 0; i < control.size() && other >= 0 && other != waiter_.rank; ++i) {
        const Peer& p = control.peer(other);
        if (!p.answered || p.waits_for < 0 || p.waits_for == other) return other;
        other = p.waits_for;
      }
    }
    return -1;
  }

  // What a rank that answers has said.
  [[nodiscard]] std::string state(const Peer& p) const {
    return is_alive(p.waits_for >= 0 ? waiter_.names.shortly(p.waits_for) : "", p.activity);
  }

  [[nodiscard]] std::string report(const ControlChannel& control, int other, Milliseconds idle,
                                   Clock::time_point now) const {
    const Peer& p = control.peer(other);
    const auto silence =
        std::chrono::duration_cast<std::chrono::seconds>(now - silent_since(control, other));
    const bool is_silent = !p.answered && silence.count() >= 1;
    return concat({waits_since(concat({waiter_.names.shortly(waiter_.rank), " ", waiter_.doing}),
                               idle, waiter_.names(other)),
                   ", which ", is_silent ? has_not_answered(silence) : state(p),
                   is_silent ? counts_as_lost(waiter_.timeout, "timeout")
                             : counts_as_lost(waiter_.progress_limit, "progress_timeout")});
  }

  Waiter waiter_;
  Milliseconds interval_;
  Clock::time_point begin_;
  Clock::time_point received_;  // when something came last
  Clock::time_point last_move_;
  Clock::time_point next_look_;
  int receiving_ = -1;  // at the last look
  RareLog reports_;
  std::optional<Clock::time_point> ended_since_;
};

}}}  // namespace lockstep::detail
