#pragma once

#include <span>

#include "lockstep/callbacks/early_stopping.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE EarlyStopping::EarlyStopping(EarlyStoppingOptions options)
    : options_(std::move(options)),
      monitor_("EarlyStopping", options_.monitor, options_.mode, options_.min_delta) {
  detail::require_option("EarlyStopping", "patience", 0, options_.patience);
  detail::require_option("EarlyStopping", "start_from_epoch", 0, options_.start_from_epoch);
}

LOCKSTEP_INLINE void EarlyStopping::on_train_begin(Training&) { progress_ = {}; }

LOCKSTEP_INLINE void EarlyStopping::on_epoch_end(Training& training, int epoch, Logs& logs) {
  const double* const value = monitor_.find(training, logs);
  if (value == nullptr || epoch < options_.start_from_epoch) return;
  const bool is_best = monitor_.is_better(*value, progress_.best);
  if (is_best) progress_.best = *value;
  if (is_best || (options_.restore_best_weights && progress_.best_weights.empty())) {
    progress_.best_epoch = epoch;
    if (options_.restore_best_weights) progress_.best_weights = training.parameters();
  }
  ++progress_.wait;
  if (is_best) {
    if (!options_.baseline || monitor_.is_better(*value, options_.baseline)) progress_.wait = 0;
    return;
  }
  if (progress_.wait < options_.patience || epoch == 0) return;
  progress_.stopped_epoch = epoch;
  training.stop_training();
}

LOCKSTEP_INLINE void EarlyStopping::on_train_end(Training& training, Logs&) {
  const auto say = [&](std::string_view what) {
    if (options_.verbose > 0 && training.is_chief()) log_line(what);
  };
  if (progress_.stopped_epoch > 0)
    say(concat({"Epoch ", progress_.stopped_epoch + 1, ": early stopping"}));
  if (progress_.best_weights.empty()) return;
  say(concat(
      {"Restoring model weights from the end of the best epoch: ", progress_.best_epoch + 1, "."}));
  training.set_parameters(progress_.best_weights);
  progress_.best_weights = {};
}

LOCKSTEP_INLINE void EarlyStopping::save(State& state) const {
  state.put("wait", progress_.wait);
  state.put("stopped_epoch", progress_.stopped_epoch);
  state.put("best_epoch", progress_.best_epoch);
  if (progress_.best) state.put("best", *progress_.best);
  if (!progress_.best_weights.empty())
    state.put("best_weights",
              std::string(reinterpret_cast<const char*>(progress_.best_weights.data()),
                          progress_.best_weights.size()));
}

LOCKSTEP_INLINE void EarlyStopping::restore(const State& state) {
  progress_ = {.wait = state.get<int>("wait"),
               .stopped_epoch = state.get<int>("stopped_epoch"),
               .best_epoch = state.get<int>("best_epoch")};
  if (state.contains("best")) progress_.best = state.get<double>("best");
  if (!state.contains("best_weights")) return;
  const std::string weights = state.get<std::string>("best_weights");
  const auto bytes = std::as_bytes(std::span(weights));
  progress_.best_weights.assign(bytes.begin(), bytes.end());
}

}}  // namespace lockstep
