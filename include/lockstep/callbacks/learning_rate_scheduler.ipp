#pragma once

#include "lockstep/callbacks/learning_rate_scheduler.hpp"
#include "lockstep/callbacks/settable_learning_rate.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void LearningRateScheduler::on_train_begin(Training& training) {
  detail::require_settable_learning_rate("LearningRateScheduler", training);
  epoch_ = -1;
}

LOCKSTEP_INLINE void LearningRateScheduler::on_epoch_begin(Training& training, int epoch) {
  if (epoch == epoch_) return;  // resumed within the epoch: its rate came with the state
  const double rate = schedule_(epoch, training.learning_rate());
  try {
    training.set_learning_rate(rate);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(
        concat({"LearningRateScheduler: epoch ", epoch + 1, ": ", error.what()}));
  }
  epoch_ = epoch;
  if (verbose_ > 0 && training.is_chief())
    log_line(
        concat({"Epoch ", epoch + 1, ": LearningRateScheduler setting learning rate to ", rate}));
}

LOCKSTEP_INLINE void LearningRateScheduler::on_epoch_end(Training& training, int, Logs& logs) {
  logs.set("learning_rate", training.learning_rate());
}

LOCKSTEP_INLINE void LearningRateScheduler::save(State& state) const { state.put("epoch", epoch_); }

LOCKSTEP_INLINE void LearningRateScheduler::restore(const State& state) {
  epoch_ = state.get<int>("epoch");
}

}  // namespace lockstep::inline LOCKSTEP_ABI
