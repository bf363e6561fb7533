// The loop of fit, as one replica runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/training/fit_part.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/fit_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// True on every rank when `mine` is true on any.
[[nodiscard]] inline bool any_rank(AnyReplica& replica, bool mine) {
  double count = mine ? 1 : 0;
  replica.collective().all_reduce(std::span<double>(&count, 1), ReduceOp::sum);
  return count > 0;
}

/// Fills FitState::parts: the features of this fit, in the order in which they run.
template <class T>
void add_parts(FitState<T>& fit);

/// One replica's run through a fit. Ranks stay in step because every decision is based on reduced
/// figures.
template <class T>
class FitRank {
 public:
  FitRank(FitState<T>& of, AnyReplica& on);
  FitRank(const FitRank&) = delete;
  FitRank& operator=(const FitRank&) = delete;
  ~FitRank();

  void run();

  // What parts read, and some change.

  /// Calls hooks on the first replica once all replicas of the process are here. The others take
  /// part in what a callback does with a model, and see what it changes.
  void call_back(FunctionRef<void()> hooks);
  /// States that are saved from now on are of this place.
  void keep_place();

  FitState<T>& fit;
  AnyReplica& replica;
  const Parts<T> model;
  const bool is_leader;  ///< the first replica of the process
  std::unique_ptr<Updater<T>> updater{};
  Trace* trace = nullptr;
  TrainingPosition at{};              ///< where this replica is
  StatusBlock running;                ///< the sums of the epoch
  std::int64_t accumulated;           ///< steps of the open window
  bool continues = false;             ///< it has steps that have not been carried into Variables
  bool has_gathered = false;          ///< since the last step: what differs between ranks
  int epoch = 0;                      ///< the current one, or the last one made
  std::int64_t steps = 0;             ///< of it, since this run began or resumed
  Trace::Clock::duration duration{};  ///< of these
  std::uint64_t sent = 0;             ///< bytes that the process sent in these

 private:
  [[nodiscard]] bool agree_on_fit();
  void agree_on_plan();
  void begin_training();
  void find_place();
  void begin_epoch();
  [[nodiscard]] FitEnd make_steps();
  [[nodiscard]] FitEnd end_step(bool has_updated);
  [[nodiscard]] bool take_sums(std::int64_t missed);
  void count_step(bool has_updated, bool have_met);
  void end_epoch();
  [[nodiscard]] FitEnd complete_epoch(FitEnd end);
  [[nodiscard]] std::optional<StatusBlock> validate();
  void end_training(const FitEnd& end);
  [[nodiscard]] Requests ask_all();
  [[nodiscard]] bool has_run_out() const;
  template <class Hook, class... Args>
  void each_part(Hook hook, Args&... args) {
    for (FitPart<T>* const part : fit.parts) (part->*hook)(args...);
  }

  BatchLoader<T> data_;
  std::optional<BatchLoader<T>> validation_{};
  ActivityBoard* const board_;
  Activity place_{.call = "fit"};
  std::int64_t iteration_;
  LossScale loss_scale_{};
  std::int64_t skipped_ = 0;  // updates of the epoch that were left out, as gradients overflowed
  bool has_begun_pass_ = false;
  bool has_more_ = true;  // some rank has more data
  bool stops_ = false;    // all have agreed to stop
};

}}}  // namespace lockstep::detail
