// Where the time of a fit goes: that of each rank, and that of each layer (FitOptions::profile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/training/fit.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// One line for an epoch: what each rank computed and waited, in milliseconds a step, and which was
/// the slowest. The rank that all wait for waits for none itself, so the least time in a reduction
/// is what the wire takes, and what the others spend beyond that is waiting. With more than eight
/// ranks, only the slowest four and the fastest are listed.
[[nodiscard]] std::string rank_times_text(std::span<const RankTime> ranks, int epoch,
                                          std::int64_t steps, int local_size);

/// Called by all ranks, whatever their verbosity: returns the times of all, given this rank's.
[[nodiscard]] std::vector<RankTime> gather_rank_times(AnyCollective& collective,
                                                      Trace::Clock::duration whole,
                                                      Trace::Clock::duration in_collective);

/// The traces of the replicas of a process.
class Profile {
 public:
  /// Events kept for each replica: some thousands of steps, in 4 MB.
  static constexpr std::size_t max_events = 100'000;

  /// `layer_names`: of the flattened model.
  Profile(std::vector<std::string> layer_names, int replicas)
      : layer_names_(std::move(layer_names)),
        begin_(Trace::Clock::now()),
        traces_(static_cast<std::size_t>(replicas), Trace(layer_names_.size(), max_events)) {}

  [[nodiscard]] Trace& trace(int replica) noexcept {
    return traces_[static_cast<std::size_t>(replica)];
  }
  [[nodiscard]] const std::vector<Trace>& traces() const noexcept { return traces_; }
  [[nodiscard]] const std::vector<std::string>& layer_names() const noexcept {
    return layer_names_;
  }
  /// Where the time axis of the Chrome trace starts.
  [[nodiscard]] Trace::Clock::time_point begin() const noexcept { return begin_; }

 private:
  std::vector<std::string> layer_names_;
  Trace::Clock::time_point begin_;
  std::vector<Trace> traces_;
};

/// How the first replica spent the time of an epoch's `steps` steps: milliseconds a step, and
/// shares of `duration`. Layers without any work (Flatten) are left out.
[[nodiscard]] std::string profile_table(const Profile& profile, int epoch, std::int64_t steps,
                                        Trace::Clock::duration duration);

/// Chrome's trace event format (chrome://tracing, https://ui.perfetto.dev): one process for the
/// worker, one thread for each replica, times in microseconds.
[[nodiscard]] std::string chrome_trace(const Profile& profile, int worker);

/// Writes chrome_trace to `path`; worker 2 writes to "trace.worker2.json" where `path` is
/// "trace.json". Returns the path written to. Throws Error naming it.
std::string write_profile(const Profile& profile, const std::string& path, int worker);

/// Writes the profile of a training that has ended, and says so. A file that cannot be written is a
/// warning: the result of the training must not be lost for it.
void finish_profile(const Profile& profile, const std::string& path, int worker);

template <class T>
class FitProfile final : public FitPart<T> {
 public:
  explicit FitProfile(FitState<T>& fit)
      : fit_(fit),
        profile_(fit.trainer.program().names().layers, fit.trainer.strategy().local_replicas()) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "profile"; }

  void begin(FitRank<T>& rank) override {
    rank.trace = &profile_.trace(rank.replica.local_rank());
    rank.call_back([&] {
      if (!std::exchange(has_checked_path_, true))
        write_profile(profile_, fit_.options.profile, worker());
    });
  }
  void end_epoch(FitRank<T>& rank) override {
    if (rank.is_leader && fit_.is_chief())
      log_line(profile_table(profile_, rank.epoch, rank.steps, rank.duration));
    rank.trace->clear_totals();
  }
  void left(FitRank<T>& rank, const FitEnd& end) override {
    if (rank.is_leader && !end.leaves_world)
      finish_profile(profile_, fit_.options.profile, worker());
  }

 private:
  [[nodiscard]] int worker() const { return fit_.trainer.strategy().worker_index(); }

  FitState<T>& fit_;
  Profile profile_;
  bool has_checked_path_ = false;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/profile.ipp"
#endif
