// BackupAndRestore: a run that is interrupted goes on where it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/save_frequency.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Saves the whole training state (variables, optimizer, epoch, step, position in the data, seed, other callbacks) to
/// `backup_dir`/training_state, and continues from it, to the same bits, when fit starts and finds one; that overrides
/// initial_epoch. The chief alone reads and writes, and sends the state to the others, so the folder need not be shared. The
/// backup is deleted at a normal end and kept when fit ends by an exception or the process is killed.
///
/// Where Keras starts the data at its beginning when it resumes, this continues at the exact sample.
struct BackupAndRestore {
  std::string backup_dir;
  SaveFrequency save_freq = SaveFrequency::epoch;
  bool delete_checkpoint = true;

  [[nodiscard]] std::string path() const { return backup_dir + "/training_state"; }

  /// Throws DataError naming the file when it is damaged, ConfigurationError when no folder is named.
  void on_train_begin(Training& training) const {
    if (backup_dir.empty()) throw ConfigurationError("BackupAndRestore: backup_dir is empty: name a folder");
    std::vector<std::byte> saved;
    if (training.is_chief()) {
      if (auto bytes = read_file(path())) {
        try {
          const TrainingState state = decode_checkpoint(*bytes);
          log_line(concat({"resuming from '", path(), "' at epoch ", state.epoch + 1, ", step ", state.step}));
        } catch (const Error& error) {
          throw DataError("BackupAndRestore: '" + path() + "': " + error.what() +
                          "; remove the file to start from the beginning");
        }
        saved = std::move(*bytes);
      }
    }
    training.restore(std::move(saved), &decode_checkpoint);
  }
  void on_epoch_complete(Training& training, int) const {
    if (save_freq.at_epoch()) save_backup(training);
  }
  void on_train_batch_complete(Training& training, std::int64_t) const {
    if (save_freq.at_step(training.iterations())) save_backup(training);
  }
  void on_train_end(Training& training, Logs&) const {
    if (training.is_chief() && delete_checkpoint) remove_file(path());
  }

 private:
  void save_backup(const Training& training) const {
    if (training.is_chief()) write_file_atomically(path(), encode_checkpoint(training.state()));
  }
};

static_assert(Callback<BackupAndRestore>);

}  // namespace lockstep::inline LOCKSTEP_ABI
