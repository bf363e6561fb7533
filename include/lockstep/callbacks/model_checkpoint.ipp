#pragma once

#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/checkpoint/snapshot_file.hpp"
#include "lockstep/checkpoint/training_end.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options)
    : options_(std::move(options)),
      filepath_(options_.filepath),
      greater_is_better_(options_.mode == MonitorMode::max ||
                         (options_.mode == MonitorMode::automatic &&
                          detail::greater_is_better(options_.monitor)
                              .value_or(options_.monitor.find("acc") != std::string::npos ||
                                        options_.monitor.starts_with("fmeasure")))) {
  if (options_.filepath.empty())
    throw ConfigurationError("ModelCheckpoint: filepath is empty: name a file");
  if (options_.save_weights_only)
    check_weights_path("ModelCheckpoint", options_.filepath);
  else
    refuse_weights_format("ModelCheckpoint", options_.filepath);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.initial_value_threshold.value_or(greater_is_better_ ? -infinity : infinity);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_begin(Training& training) {
  if (const auto folder = marked_folder(training)) mark_training_begun(*folder);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_end(Training& training, Logs&) {
  if (const auto folder = marked_folder(training)) mark_training_ended(*folder);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_epoch_end(Training& training, int, Logs& logs) {
  if (options_.save_freq.at_epoch()) decide(training, std::nullopt, logs);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_epoch_complete(Training& training, int) {
  write(training);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_batch_begin(Training& training, std::int64_t) {
  if (!options_.save_freq.at_epoch() && options_.save_freq.at_step(batches_ + 1))
    training.verify_after_step();
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_batch_end(Training& training, std::int64_t batch,
                                                         Logs& logs) {
  if (options_.save_freq.at_epoch() || !options_.save_freq.at_step(++batches_)) return;
  batches_ = 0;
  decide(training, batch, logs);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_batch_complete(Training& training, std::int64_t) {
  write(training);
}

LOCKSTEP_INLINE void ModelCheckpoint::save(State& state) const {
  if (options_.save_best_only) state.put("best", best_);
  if (!options_.save_freq.at_epoch()) state.put("batches_since_save", batches_);
}

LOCKSTEP_INLINE void ModelCheckpoint::restore(const State& state) {
  if (state.contains("best")) best_ = state.get<double>("best");
  if (state.contains("batches_since_save"))
    batches_ = state.get<std::int64_t>("batches_since_save");
}

/// All workers decide alike: they see the same logs.
LOCKSTEP_INLINE void ModelCheckpoint::decide(const Training& training,
                                             std::optional<std::int64_t> batch, const Logs& logs) {
  const auto say = [&](std::string_view what) {
    if (options_.verbose > 0 && training.is_chief())
      log_line(concat({"Epoch ", epoch_ + 1, ": ", what}));
  };
  std::string path = filepath_.format(epoch_, batch, logs);
  if (!options_.save_best_only) {
    say(concat({"saving model to ", path}));
  } else {
    const double* const value = logs.find(options_.monitor);
    if (value == nullptr) {
      if (std::exchange(has_warned_, true) || !training.is_chief()) return;
      return log_line(
          concat({"warning: ModelCheckpoint: nothing is saved: monitor: the logs have no '",
                  options_.monitor, "'; available: ", detail::names_of(logs)}));
    }
    if (!(greater_is_better_ ? *value > best_ : *value < best_))
      return say(concat({options_.monitor, " did not improve from ", best_}));
    say(concat(
        {options_.monitor, " improved from ", best_, " to ", *value, ", saving model to ", path}));
    best_ = *value;
  }
  due_ = std::move(path);
}

/// Where to say whether training has ended.
LOCKSTEP_INLINE std::optional<std::string> ModelCheckpoint::marked_folder(
    const Training& training) const {
  const std::string folder = detail::folder_of(options_.filepath).string();
  if (!training.is_chief() || options_.save_weights_only || folder.find('{') != std::string::npos)
    return std::nullopt;
  return folder;
}

LOCKSTEP_INLINE void ModelCheckpoint::write(Training& training) {
  if (!due_) return;
  if (!training.is_verified()) return training.verify_after_step();
  const std::string path = *std::exchange(due_, std::nullopt);
  if (!training.is_chief()) return;
  TrainingState state = training.state();
  if (options_.save_weights_only) {
    const bool is_keras = is_keras_file(path);
    const KerasOptimizer optimizer = is_keras ? training.keras_optimizer(state) : KerasOptimizer{};
    std::move(state.state.begin(), state.state.end(), std::back_inserter(state.parameters));
    save_weights_file(path, std::move(state.parameters),
                      is_keras ? training.keras_layout() : KerasLayout{}, optimizer);
  } else {
    save_snapshot(path, state);
  }
  remove_stale_temporaries(path);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
