// What a rank makes of the others' words and of the ends of their connections.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/failure_consensus.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/core/activity.hpp"
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

/// The whole of a rank's part in noticing a failure, from bytes and ends of connections to the
/// cause that all ranks name. After bytes have come, a connection has ended or due() has passed,
/// the owner calls conclude(). Used by one thread at a time.
class FailureWatch {
 public:
  using Clock = ControlChannel::Clock;
  using Milliseconds = std::chrono::milliseconds;

  /// `names` must stay.
  FailureWatch(const WorkerNames& names, int rank, const ActivityBoard& board, FailureCause& cause,
               ControlChannel::Send send)
      : names_(names),
        cause_(cause),
        channel_(rank, names.size(), board, std::move(send)),
        consensus_(channel_, all_of(names)) {
    channel_.set_on_vote(
        [this](int from, const ControlInbox::Message& message, Clock::time_point now) {
          if (!cause_.is_set()) consensus_.take(from, message, now);
        });
  }
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  [[nodiscard]] ControlChannel& channel() noexcept { return channel_; }
  [[nodiscard]] const ControlChannel& channel() const noexcept { return channel_; }

  /// Returns the cause that all ranks will name, and tells it to them.
  CollectiveFailure settle(CollectiveFailure failure) {
    if (failure.failed_rank >= 0 && failure.failed_rank < channel_.size()) {
      failure.address = names_.address(failure.failed_rank);
      failure.worker = names_.number(failure.failed_rank);
    }
    failure = cause_.set(std::move(failure));
    channel_.report(failure);
    return failure;
  }

  /// Takes bytes that a partner has sent. Returns whether a waiting thread should know: a failure,
  /// or a rank has ended, or all have.
  [[nodiscard]] bool take(int other, std::string_view bytes, Clock::time_point now) {
    const int endings = channel_.endings();
    if (channel_.take(other, bytes, now)) return channel_.endings() != endings;
    CollectiveFailure failure;
    failure.failed_rank = other;
    failure.reason = spoke_nonsense;
    settle(std::move(failure));
    return true;
  }

  /// A peer's control connection is closed (error 0) or broken (errno). Returns whether that is a
  /// loss that counts; then a probe may look for the peer's process. It does not after a goodbye,
  /// nor after a report: all reports are read first.
  [[nodiscard]] bool lose(int other, int error, Clock::time_point now) {
    channel_.peer(other).gone = true;
    if (channel_.peer(other).goodbye || cause_.is_set() || channel_.reported()) return false;
    consensus_.lose(other, error, now);
    return true;
  }

  /// See FailureConsensus.
  void look_for(int other, bool is_looked_for) { consensus_.look_for(other, is_looked_for); }
  void found(int other, PeerEvidence::Process process) { consensus_.found(other, process); }

  /// The waiting thread of this rank has heard nothing from a peer for this long, or has lost a
  /// connection for data.
  void miss(int other, Milliseconds silence, Clock::time_point now) {
    if (!cause_.is_set()) consensus_.miss(other, silence, now);
  }
  void lose_data(int other, int error, Clock::time_point now) {
    if (!cause_.is_set()) consensus_.lose_data(other, error, now);
  }

  /// Whether a peer's report waits for conclude().
  [[nodiscard]] bool has_report() const noexcept { return channel_.reported().has_value(); }
  /// When to conclude() in any case.
  [[nodiscard]] Clock::time_point due() const noexcept {
    return cause_.is_set() ? Clock::time_point::max() : consensus_.due();
  }
  /// Returns whether there is a cause now, and was none.
  [[nodiscard]] bool conclude(Clock::time_point now) {
    if (cause_.is_set()) return false;
    if (has_report()) {
      settle(*channel_.reported());
      return true;
    }
    auto verdict = consensus_.advance(now);
    if (!verdict) return false;
    settle(std::move(*verdict));
    return true;
  }

 private:
  static std::vector<std::string> all_of(const WorkerNames& names) {
    std::vector<std::string> result;
    result.reserve(static_cast<std::size_t>(names.size()));
    for (int rank = 0; rank < names.size(); ++rank) result.push_back(names(rank));
    return result;
  }

  const WorkerNames& names_;
  FailureCause& cause_;
  ControlChannel channel_;
  FailureConsensus consensus_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
