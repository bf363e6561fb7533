#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lockstep/callbacks/learning_rate.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

LOCKSTEP_INLINE void require_settable_learning_rate(std::string_view callback, Training& training) {
  try {
    training.set_learning_rate(training.learning_rate());
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(concat({callback, ": ", error.what()}));
  }
}

}  // namespace detail

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

LOCKSTEP_INLINE ReduceLROnPlateau::ReduceLROnPlateau(ReduceLROnPlateauOptions options)
    : options_(std::move(options)),
      monitor_("ReduceLROnPlateau", options_.monitor, options_.mode, options_.min_delta) {
  if (!(options_.factor >= 0 && options_.factor < 1))
    throw ConfigurationError(
        concat({"ReduceLROnPlateau: factor must be in [0, 1), got ", options_.factor}));
  detail::require_option("ReduceLROnPlateau", "patience", 0, options_.patience);
  detail::require_option("ReduceLROnPlateau", "cooldown", 0, options_.cooldown);
  detail::require_option("ReduceLROnPlateau", "min_lr", 0, options_.min_lr);
}

LOCKSTEP_INLINE void ReduceLROnPlateau::on_train_begin(Training& training) {
  detail::require_settable_learning_rate("ReduceLROnPlateau", training);
  progress_ = {};
}

LOCKSTEP_INLINE void ReduceLROnPlateau::on_epoch_end(Training& training, int epoch, Logs& logs) {
  const double rate = training.learning_rate();
  logs.set("learning_rate", rate);
  const double* const value = monitor_.find(training, logs);
  if (value == nullptr) return;
  if (progress_.cooldown > 0) {
    --progress_.cooldown;
    progress_.wait = 0;
  }
  if (monitor_.is_better(*value, progress_.best)) {
    progress_.best = *value;
    progress_.wait = 0;
    return;
  }
  if (progress_.cooldown > 0 || ++progress_.wait < options_.patience || rate <= options_.min_lr)
    return;
  const double lower = std::max(rate * options_.factor, options_.min_lr);
  training.set_learning_rate(lower);
  progress_.cooldown = options_.cooldown;
  progress_.wait = 0;
  if (options_.verbose > 0 && training.is_chief())
    log_line(
        concat({"Epoch ", epoch + 1, ": ReduceLROnPlateau reducing learning rate to ", lower}));
}

LOCKSTEP_INLINE void ReduceLROnPlateau::save(State& state) const {
  state.put("wait", progress_.wait);
  state.put("cooldown", progress_.cooldown);
  if (progress_.best) state.put("best", *progress_.best);
}

LOCKSTEP_INLINE void ReduceLROnPlateau::restore(const State& state) {
  progress_ = {.wait = state.get<int>("wait"), .cooldown = state.get<int>("cooldown")};
  if (state.contains("best")) progress_.best = state.get<double>("best");
}

LOCKSTEP_INLINE LearningRateFinder::LearningRateFinder(LearningRateFinderOptions options)
    : options_(options) {
  if (!(options_.min_lr > 0 && options_.min_lr < options_.max_lr && std::isfinite(options_.max_lr)))
    throw ConfigurationError(
        concat({"LearningRateFinder: min_lr must be above 0 and below max_lr, got ",
                options_.min_lr, " and ", options_.max_lr}));
  detail::require_option("LearningRateFinder", "steps", 2, options_.steps);
  if (!(options_.stop_factor > 1))
    throw ConfigurationError(
        concat({"LearningRateFinder: stop_factor must be above 1, got ", options_.stop_factor}));
  if (!(options_.smoothing >= 0 && options_.smoothing < 1))
    throw ConfigurationError(
        concat({"LearningRateFinder: smoothing must be in [0, 1), got ", options_.smoothing}));
}

LOCKSTEP_INLINE void LearningRateFinder::on_train_begin(Training& training) {
  detail::require_settable_learning_rate("LearningRateFinder", training);
  points_.clear();
  parameters_ = training.parameters();
  rate_ = training.learning_rate();
  training.set_learning_rate(options_.min_lr);
}

LOCKSTEP_INLINE void LearningRateFinder::on_train_batch_end(Training& training, std::int64_t batch,
                                                            Logs& logs) {
  // The logs have the mean of the epoch's steps so far.
  const double sum = logs.at("loss") * static_cast<double>(batch + 1);
  const double loss = sum - (batch == 0 ? 0 : sum_);
  sum_ = sum;
  const double smooth =
      points_.empty() ? loss
                      : options_.smoothing * points_.back().loss + (1 - options_.smoothing) * loss;
  lowest_ = points_.empty() ? smooth : std::min(lowest_, smooth);
  points_.push_back({training.learning_rate(), smooth});
  const auto done = static_cast<double>(points_.size());
  // (A loss that is no number has grown.)
  if (done >= options_.steps || !(smooth <= options_.stop_factor * lowest_))
    return training.stop_training();
  training.set_learning_rate(
      options_.min_lr * std::pow(options_.max_lr / options_.min_lr, done / (options_.steps - 1)));
}

LOCKSTEP_INLINE void LearningRateFinder::on_train_end(Training& training, Logs&) {
  if (points_.empty()) return;
  training.set_parameters(parameters_);
  training.set_learning_rate(rate_);
  if (options_.verbose > 0 && training.is_chief())
    log_line(concat({"LearningRateFinder: the loss is lowest at a learning rate of ",
                     number_text(10 * *suggestion(), NumberForm::general, 3), ": begin with ",
                     number_text(*suggestion(), NumberForm::general, 3)}));
}

LOCKSTEP_INLINE std::optional<double> LearningRateFinder::suggestion() const {
  const auto lowest = std::ranges::min_element(points_, {}, [](const Point& point) {
    return std::isfinite(point.loss) ? point.loss : std::numeric_limits<double>::max();
  });
  if (lowest == points_.end()) return std::nullopt;
  return lowest->learning_rate / 10;
}

}}  // namespace lockstep
