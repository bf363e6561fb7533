// LearningRateScheduler: the learning rate of each epoch, from a function.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// At the beginning of each epoch, sets the learning rate to `schedule(epoch, rate)`, of the index
/// of the epoch and the rate in force, and puts it into the epoch's logs as "learning_rate":
/// @code
/// LearningRateScheduler([](int epoch, double rate) { return epoch < 10 ? rate : rate * 0.9; })
/// @endcode
/// A function of the epoch alone will do. It must give the same on every worker, as FitOptions::
/// verify_replicas finds out. It is called once for each epoch, also where training is interrupted
/// within one and resumed.
///
/// For a rate that depends on the number of updates, give the optimizer a schedule. Serves one fit
/// at a time; its hooks run on the thread of the first replica.
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

  /// Throws ConfigurationError when the optimizer has a schedule of its own.
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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/learning_rate_scheduler.ipp"
#endif
