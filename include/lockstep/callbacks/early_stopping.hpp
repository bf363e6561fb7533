// EarlyStopping and TerminateOnNaN.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/monitor.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Keras's names, order and defaults.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";  ///< of the logs; without validation data "loss"
  double min_delta = 0;              ///< an improvement is more than this; its sign means nothing
  int patience = 0;                  ///< epochs without improvement after which training ends
  int verbose = 0;                   ///< 1: says that training ends, and which weights are put back
  /// automatic: by the figure's name, where it is one of Keras's; else the constructor throws.
  MonitorMode mode = MonitorMode::automatic;
  /// The waiting begins anew only where the figure is better than this.
  std::optional<double> baseline = std::nullopt;
  bool restore_best_weights = false;  ///< at the end of fit, whatever has ended it
  int start_from_epoch = 0;           ///< index of the first epoch that counts
};

/// Ends training on all workers after the epoch in which the figure has not improved for `patience`
/// epochs, with Keras's rules: each epoch counts as one of waiting; an improvement on the best
/// value so far is the new best, and ends the waiting unless there is a baseline that it does not
/// reach; training never ends after the first epoch. An epoch whose logs lack the figure does not
/// count. A NaN is never the best value (in Keras it is, when it comes first).
///
/// With restore_best_weights it keeps a copy of all variables of the best epoch, the moving
/// statistics with them, in each worker's memory and in every backup. A resumed run goes on with
/// the waiting, the best value and these weights; a new fit begins afresh.
///
/// The decision is taken from the logs, which are equal on all workers (with parameter servers,
/// each worker has its own, and all get the weights that the chief puts back). Serves one fit at a
/// time; its hooks run on the thread of the first replica.
/// Use: `EarlyStopping({.monitor = "val_loss", .patience = 3, .restore_best_weights = true})`.
class EarlyStopping {
 public:
  /// Throws ConfigurationError for options that make no sense.
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  void on_train_begin(Training& training);
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_train_end(Training& training, Logs& logs);

  /// Index of the epoch after which it has ended training; 0: it has not.
  [[nodiscard]] int stopped_epoch() const noexcept { return progress_.stopped_epoch; }
  /// The best value so far, and the index of its epoch.
  [[nodiscard]] const std::optional<double>& best() const noexcept { return progress_.best; }
  [[nodiscard]] int best_epoch() const noexcept { return progress_.best_epoch; }
  /// Epochs since then.
  [[nodiscard]] int wait() const noexcept { return progress_.wait; }

  [[nodiscard]] std::string state_key() const { return options_.monitor; }
  void save(State& state) const;
  void restore(const State& state);

 private:
  struct Progress {
    int wait = 0;
    int stopped_epoch = 0;
    int best_epoch = 0;
    std::optional<double> best = std::nullopt;
    std::vector<std::byte> best_weights = {};
  };

  EarlyStoppingOptions options_;
  detail::Monitor monitor_;
  Progress progress_;
};

/// Ends training on all workers after the batch whose loss is NaN or infinite. The update of that
/// batch has been made; to keep the parameters from before it, give fit stop_on_non_finite.
/// Use: `TerminateOnNaN{}`.
struct TerminateOnNaN {
  bool raise_error = false;  ///< fit throws an Error instead of returning after the epoch's hooks

  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs) const {
    const double* const loss = logs.find("loss");
    if (loss == nullptr || std::isfinite(*loss)) return;
    const double shown = std::isnan(*loss) ? std::abs(*loss) : *loss;  // a NaN's sign means nothing
    const std::string what =
        concat({"TerminateOnNaN: the loss of batch ", batch + 1, " is ", shown, ": training ends"});
    if (raise_error) throw Error(what);
    if (training.is_chief()) log_line(what);
    training.stop_training();
  }
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/early_stopping.ipp"
#endif
