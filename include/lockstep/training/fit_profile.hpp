// FitProfile: where the time of a fit goes (FitOptions::profile).
#pragma once

#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/training/fit.hpp"
#include "lockstep/training/profile.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
