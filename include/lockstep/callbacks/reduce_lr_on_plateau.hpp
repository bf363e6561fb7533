// ReduceLROnPlateau: a lower learning rate when a figure has stopped improving.
#pragma once

#include <optional>
#include <string>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/monitor.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
/// rate that was in force in the epoch into the logs, as "learning_rate". The counts are part of
/// what BackupAndRestore saves; a new fit begins afresh.
///
/// The decision is taken from the logs, which are equal on all workers. Serves one fit at a time;
/// its hooks run on the thread of the first replica.
class ReduceLROnPlateau {
 public:
  /// Throws ConfigurationError for options that make no sense.
  explicit ReduceLROnPlateau(ReduceLROnPlateauOptions options = {});

  /// Throws ConfigurationError when the optimizer has a schedule, which sets the rate itself.
  void on_train_begin(Training& training);
  void on_epoch_end(Training& training, int epoch, Logs& logs);

  /// The best value since fit began.
  [[nodiscard]] const std::optional<double>& best() const noexcept { return progress_.best; }

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

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/reduce_lr_on_plateau.ipp"
#endif
