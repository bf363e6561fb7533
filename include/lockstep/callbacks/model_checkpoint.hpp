// ModelCheckpoint, and its templates of file names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/frequency.hpp"
#include "lockstep/callbacks/monitor.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A path as Keras's callbacks take it: "run/{epoch:02d}-{val_loss:.2f}". A field in braces is
/// epoch or batch (counted from 1), or the name of a figure of the logs. After a colon follows its
/// format: an optional 0, the width, a dot and the precision, and one of d (whole numbers), e, f,
/// g. {{ and }} are braces.
class FilepathTemplate {
 public:
  /// Throws ConfigurationError when the text is no such template.
  explicit FilepathTemplate(std::string_view text);

  /// `epoch` and `batch` from 0. Throws ConfigurationError when a figure is missing, listing those
  /// that exist, or when its format does not fit.
  [[nodiscard]] std::string format(std::int64_t epoch, std::optional<std::int64_t> batch,
                                   const Logs& logs) const;

 private:
  struct Piece {
    std::string text;   ///< comes first, as it is
    std::string field;  ///< comes behind the text; empty: none
    std::string flags;  ///< "02", ".2"
    char conversion = 0;
  };
  std::string text_;
  std::vector<Piece> pieces_;
};

struct ModelCheckpointOptions {
  std::string filepath;              ///< see FilepathTemplate: "run/{epoch:02d}-{val_loss:.2f}"
  std::string monitor = "val_loss";  ///< the figure of the logs that says what is best
  int verbose = 0;                   ///< 1: a line for each save
  bool save_best_only = false;       ///< only when the figure is the best so far
  /// The weights alone, by the extension as .safetensors, .npz, .weights.h5 (see
  /// Model::save_weights), or in lockstep's own format; else the whole training state.
  bool save_weights_only = false;
  /// automatic: by the figure's name, where it is one of Keras's. With save_best_only, others need
  /// min or max.
  MonitorMode mode = MonitorMode::automatic;
  /// Or a number of batches: a save is due after that many since the last one, counted across
  /// epochs and fits, as in Keras.
  SaveFrequency save_freq = SaveFrequency::epoch;
  /// The value that the first one must beat.
  std::optional<double> initial_value_threshold = std::nullopt;
  /// Each worker writes its share of the whole training state, in parallel, into the folder
  /// `filepath`, which all workers must see: see BackupAndRestore::sharded. Not in an elastic
  /// world, nor with parameter servers.
  bool sharded = false;
};

/// Saves at the end of an epoch (after validation) or every n steps, for Model::load or
/// Model::load_weights. Only the chief writes, after the replicas have been compared (see
/// FitOptions::verify_replicas); parent folders are made. The best value so far is part of what
/// BackupAndRestore saves: put this callback before it in the list, so that no backup names a best
/// model that is not on the disk yet. If it saves the whole state, and the folder's name has no
/// field such as {epoch}, a file in the folder says at the end of fit that training has ended (see
/// mark_training_ended), so that a SidecarEvaluator ends as well.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
/// Use: `ModelCheckpoint({.filepath = "best", .save_best_only = true})`.
class ModelCheckpoint {
 public:
  static constexpr bool stops_training = false;

  /// Throws ConfigurationError when the filepath is empty or no template, or names a format for
  /// weights alone although the whole training state is to be saved, or one that cannot be written;
  /// for weights alone with .sharded;
  /// and with save_best_only, when the mode is automatic and the figure's name does not tell which
  /// values are better.
  explicit ModelCheckpoint(ModelCheckpointOptions options);

  /// Throws ConfigurationError with .sharded and parameter servers or an elastic world.
  void on_train_begin(Training& training);
  void on_train_end(Training& training, Logs& logs);
  /// These throw ConfigurationError, naming the figures there are, when the logs lack a figure of
  /// the filepath, and Error naming the path when it cannot be written. If the logs have no
  /// `monitor`, nothing is saved, and a single warning names the figures there are.
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_epoch_complete(Training& training, int epoch);
  void on_train_batch_begin(Training& training, std::int64_t batch);
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_train_batch_complete(Training& training, std::int64_t batch);
  void on_epoch_begin(Training&, int epoch) { epoch_ = epoch; }

  /// The best value so far; infinite before the first.
  [[nodiscard]] double best() const noexcept { return best_; }

  [[nodiscard]] std::string state_key() const {
    return concat({options_.monitor, ", ", options_.filepath});
  }
  void save(State& state) const;
  void restore(const State& state);
  /// For fit, which gathers the state for a callback that saves it whole.
  [[nodiscard]] bool needs_whole_state() const noexcept { return !options_.sharded; }

 private:
  void decide(const Training& training, std::optional<std::int64_t> batch, const Logs& logs);
  void write(Training& training);
  [[nodiscard]] std::optional<std::string> marked_folder(const Training& training) const;

  ModelCheckpointOptions options_;
  FilepathTemplate filepath_;
  bool greater_is_better_;
  double best_;
  int epoch_ = 0;
  std::int64_t batches_ = 0;  ///< since the last save
  bool has_warned_ = false;
  std::optional<std::string> due_;  ///< where to save when the state is complete
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/model_checkpoint.ipp"
#endif
