// Callbacks that set the learning rate: LearningRateScheduler, ReduceLROnPlateau.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/monitor.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Throws ConfigurationError when training refuses to set the learning rate, so that a callback
/// fails before the first step, and not when it has something to change.
void require_settable_learning_rate(std::string_view callback, Training& training);

}  // namespace detail

/// At the beginning of each epoch, sets the learning rate to `schedule(epoch, rate)`, of the index
/// of the epoch and the current rate, and puts it into the epoch's logs as "learning_rate":
/// @code
/// LearningRateScheduler([](int epoch, double rate) { return epoch < 10 ? rate : rate * 0.9; })
/// @endcode
/// A function of the epoch alone will do. It must give the same on every worker, as FitOptions::
/// verify_replicas finds out. It is called once for each epoch, also where training is interrupted
/// within one and resumed.
///
/// For a rate that depends on the number of updates, give the optimizer a schedule. Serves one fit
/// at a time; its hooks run on the thread of the first replica.
/// Use: `LearningRateScheduler([](int epoch) { return epoch < 10 ? 0.1 : 0.01; })`.
class LearningRateScheduler {
 public:
  /// `verbose` 1: the chief says each rate.
  template <class F>
    requires std::is_invocable_r_v<double, F&, int, double> ||
             std::is_invocable_r_v<double, F&, int>
  explicit LearningRateScheduler(F schedule, int verbose = 0) : verbose_(verbose) {
    if constexpr (std::is_invocable_r_v<double, F&, int, double>)
      schedule_ = std::move(schedule);
    else
      schedule_ = [only_epoch = std::move(schedule)](int epoch, double) mutable {
        return only_epoch(epoch);
      };
  }

  /// Throws ConfigurationError when the optimizer already has a schedule.
  void on_train_begin(Training& training);
  /// Throws ConfigurationError when the function returns no finite number or a negative one.
  void on_epoch_begin(Training& training, int epoch);
  void on_epoch_end(Training& training, int epoch, Logs& logs);

  void save(State& state) const;
  void restore(const State& state);

 private:
  std::function<double(int, double)> schedule_;
  int verbose_;
  int epoch_ = -1;  ///< the epoch whose rate is set
};

/// Keras's names, order and defaults.
struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";  ///< the figure of the logs that must improve
  double factor = 0.1;               ///< by which the learning rate is multiplied; in [0, 1)
  int patience = 10;                 ///< epochs without improvement after which it is
  int verbose = 0;                   ///< 1: a line for each reduction
  /// automatic: by the figure's name, where it is one of Keras's; else the constructor throws.
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 1e-4;  ///< an improvement is more than this; its sign means nothing
  int cooldown = 0;         ///< epochs after a reduction in which none are counted
  double min_lr = 0;        ///< the learning rate is never reduced below this
};

/// Lowers the learning rate on all workers at the end of an epoch, with Keras's rules, and puts the
/// rate that the epoch used into the logs, as "learning_rate". The counts are part of
/// what BackupAndRestore saves; a new fit begins afresh.
///
/// The decision is taken from the logs, which are equal on all workers. Serves one fit at a time;
/// its hooks run on the thread of the first replica.
/// Use: `ReduceLROnPlateau({.factor = 0.2, .patience = 5})`.
class ReduceLROnPlateau {
 public:
  /// Throws ConfigurationError for options that make no sense.
  explicit ReduceLROnPlateau(ReduceLROnPlateauOptions options = {});

  /// Throws ConfigurationError when the optimizer has a schedule, which sets the rate itself.
  void on_train_begin(Training& training);
  void on_epoch_end(Training& training, int epoch, Logs& logs);

  /// The best value since fit began.
  [[nodiscard]] const std::optional<double>& best() const noexcept { return progress_.best; }

  [[nodiscard]] std::string state_key() const { return options_.monitor; }
  void save(State& state) const;
  void restore(const State& state);

 private:
  struct Progress {
    int wait = 0;
    int cooldown = 0;  ///< epochs that are left of it
    std::optional<double> best = std::nullopt;
  };

  ReduceLROnPlateauOptions options_;
  detail::Monitor monitor_;
  Progress progress_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/learning_rate.ipp"
#endif
