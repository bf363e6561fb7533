#pragma once

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/background_task.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

struct BackupWriter {
  TrainingState snapshot;  // what the task writes; its memory serves from save to save
  BackgroundTask task;
  bool put_off = false;  // a save was due while the task ran
};

LOCKSTEP_INLINE std::shared_ptr<BackupWriter> make_backup_writer() { return std::make_shared<BackupWriter>(); }

}  // namespace detail

LOCKSTEP_INLINE void BackupAndRestore::on_train_begin(Training& training) const {
  if (backup_dir.empty()) throw ConfigurationError("BackupAndRestore: backup_dir is empty: name a folder");
  std::vector<std::byte> saved;
  if (training.is_chief()) {
    finish_save(OnSaveFailure::warn);  // of a fit that has ended by an exception
    writer->put_off = false;
    remove_stale_temporaries(path());
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
  if (save_before_preemption) training.preempt_on_signals();
  if (on_peer_loss == OnPeerLoss::rejoin) training.rejoin_on_peer_loss(&encode_checkpoint, &decode_checkpoint);
}

LOCKSTEP_INLINE void BackupAndRestore::on_preemption(Training& training) const {
  if (!training.is_chief() || !save_before_preemption) return;
  finish_save(on_save_failure);
  start_save(training);
  finish_save(on_save_failure);
  log_line(concat({"saved '", path(), "' before leaving: start the program again to go on"}));
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_end(Training& training, Logs&) const {
  if (!training.is_chief()) return;
  finish_save(delete_checkpoint ? OnSaveFailure::warn : on_save_failure);  // nobody misses what is deleted
  if (delete_checkpoint) {
    remove_file(path());
  } else if (std::exchange(writer->put_off, false)) {
    start_save(training);
    finish_save(on_save_failure);
  }
  writer->snapshot = {};
}

LOCKSTEP_INLINE void BackupAndRestore::save_when(const Training& training, bool due) const {
  if (!training.is_chief()) return;
  writer->put_off = writer->put_off || due;
  if (writer->task.is_running()) return;
  finish_save(on_save_failure);
  if (!std::exchange(writer->put_off, false)) return;
  start_save(training);
  if (!asynchronous) finish_save(on_save_failure);
}

LOCKSTEP_INLINE void BackupAndRestore::start_save(const Training& training) const {
  TrainingState& snapshot = writer->snapshot;
  snapshot = training.state(std::move(snapshot));
  writer->task.start([path = path(), &snapshot] { write_file_atomically(path, EncodedCheckpoint(snapshot).parts()); });
}

LOCKSTEP_INLINE void BackupAndRestore::finish_save(OnSaveFailure on_failure) const {
  try {
    writer->task.finish();
  } catch (const std::exception& error) {
    const std::string message =
        concat({"BackupAndRestore: saving to '", path(), "' failed: ", error.what(), "; an older backup is unharmed"});
    if (on_failure == OnSaveFailure::fail) throw Error(message);
    log_line("warning: " + message);
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
