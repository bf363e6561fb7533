// SwapEMAWeights: evaluation with the moving averages of the weights.
#pragma once

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Evaluates and predicts with the moving averages that an optimizer with `.use_ema = true` keeps,
/// and puts the weights back afterwards. Before the first update the averages are the weights.
///
/// Other callbacks see the averages only with `.swap_on_epoch = true`: they are the weights of the
/// model from this callback's on_epoch_end until the next epoch begins. Give it before a
/// ModelCheckpoint that is to save them. (A training state that is saved meanwhile has both.)
/// Use: `SwapEMAWeights{}`.
struct SwapEMAWeights {
  bool swap_on_epoch = false;
  bool has_swapped = false;  ///< not an option: for the time of an evaluation

  void on_train_begin(Training& training) const { require_averages(training); }
  void on_epoch_end(Training& training, int, Logs&) const {
    if (swap_on_epoch && !training.shows_averages()) training.swap_averages();
  }
  void on_test_begin(Training& training) { show(training); }
  void on_test_end(Training& training, Logs&) { put_back(training); }
  void on_predict_begin(Training& training) { show(training); }
  void on_predict_end(Training& training) { put_back(training); }

 private:
  static void require_averages(const Training& training) {
    if (!training.has_averages())
      throw ConfigurationError(
          "SwapEMAWeights: the optimizer keeps no averages of the weights: compile with one that "
          "has .use_ema = true");
  }
  void show(Training& training) {
    require_averages(training);
    has_swapped = !training.shows_averages();
    if (has_swapped) training.swap_averages();
  }
  void put_back(Training& training) {
    if (has_swapped && training.shows_averages()) training.swap_averages();
    has_swapped = false;
  }
};

}}  // namespace lockstep
