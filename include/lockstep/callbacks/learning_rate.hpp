// Callbacks that set the learning rate: LearningRateScheduler, ReduceLROnPlateau,
// LearningRateFinder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/monitor.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
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
/// A function of the epoch alone will do. It must return the same on every worker, or else
/// FitOptions::verify_replicas finds a difference. It is called once for each epoch, even if
/// training is interrupted within one and resumed.
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

struct LearningRateFinderOptions {
  double min_lr = 1e-6;    ///< the rate of the first step
  double max_lr = 10;      ///< that of the last one
  int steps = 100;         ///< after which training stops; each has the same multiple
  double stop_factor = 4;  ///< training stops where the loss is this many times its lowest
  double smoothing = 0.8;  ///< weight of the losses before, in the mean that counts; in [0, 1)
  int verbose = 1;         ///< 1: a line with the suggestion
};

/// Finds a learning rate: trains for some steps with a rate that grows from step to step, until the
/// loss does, and puts the weights and the rate back in the end. Smith, "Cyclical learning rates
/// for training neural networks", WACV 2017. Keras: none.
///
/// Give it a separate fit, of one long epoch or of several. It leaves the optimizer's slots
/// and count of updates as they then are: compile again for the training itself. Works alike
/// on all workers. Serves one fit at a time; its hooks run on the thread of the first replica.
/// @code
/// LearningRateFinder finder;
/// model.fit(batches, {.steps_per_epoch = 100}, finder);
/// const double rate = finder.suggestion().value();
/// @endcode
/// Use: `LearningRateFinder({.max_lr = 1})`.
class LearningRateFinder {
 public:
  struct Point {
    double learning_rate;
    double loss;  ///< smoothed
  };

  /// Throws ConfigurationError for options that make no sense.
  explicit LearningRateFinder(LearningRateFinderOptions options = {});

  /// Throws ConfigurationError when the optimizer has a schedule, which sets the rate itself.
  void on_train_begin(Training& training);
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_train_end(Training& training, Logs& logs);

  /// A tenth of the rate where the loss was lowest; empty before the first step.
  [[nodiscard]] std::optional<double> suggestion() const;
  /// A point for each step, to be drawn.
  [[nodiscard]] const std::vector<Point>& points() const noexcept { return points_; }

 private:
  LearningRateFinderOptions options_;
  std::vector<Point> points_;
  std::vector<std::byte> parameters_;  // before the first step
  double rate_ = 0;                    // likewise
  double sum_ = 0;                     // of the losses of this epoch's steps
  double lowest_ = 0;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/learning_rate.ipp"
#endif
