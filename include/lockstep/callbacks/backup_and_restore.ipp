#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_lock.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/snapshot_writer.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// What the copies of a BackupAndRestore share. Only one thread may call the members.
class BackupWriter : public SnapshotWriter<> {
 public:
  std::optional<FileLock> lock;  ///< on the folder
  bool is_waiting = false;       ///< a save is due and waits for the replicas to be compared
};

/// Whether that worked.
template <class F>
bool try_to_save(const std::string& path, OnSaveFailure on_failure, F save) {
  try {
    save();
    return true;
  } catch (const std::exception& error) {
    const std::string message =
        concat({"BackupAndRestore: saving to '", path, "' failed: ", error.what(),
                "; an older backup is unharmed"});
    if (on_failure == OnSaveFailure::fail) throw Error(message);
    log_warning(message);
    return false;
  }
}

LOCKSTEP_INLINE std::shared_ptr<BackupWriter> make_backup_writer() {
  return std::make_shared<BackupWriter>();
}

}  // namespace detail

LOCKSTEP_INLINE void BackupAndRestore::on_train_begin(Training& training) const {
  if (backup_dir.empty())
    throw ConfigurationError("BackupAndRestore: backup_dir is empty: name a folder");
  std::vector<std::byte> saved;
  if (training.is_chief()) {
    finish_all(OnSaveFailure::warn);  // outside of fit no on_train_abort is called
    writer->is_waiting = false;
    lock_folder(training);
    remove_stale_temporaries(path());
    try {
      saved = read(training.state_bytes());
    } catch (const DataError&) {
      training.cannot_restore(std::current_exception());
      writer->do_not_keep();
    }
  }
  training.restore(std::move(saved), &decode_checkpoint, allow_changes);
  if (save_before_preemption) training.preempt_on_signals();
  if (on_peer_loss == OnPeerLoss::rejoin)
    training.rejoin_on_peer_loss(&encode_checkpoint, &decode_checkpoint);
  if (on_peer_loss == OnPeerLoss::rejoin || training.is_elastic())
    training.backup_for_rejoin([own = *this](std::uint64_t expected) {
      own.finish_all(OnSaveFailure::warn);
      return own.read(expected);
    });
}

LOCKSTEP_INLINE void BackupAndRestore::lock_folder(const Training& training) const {
  const std::string lock = path() + ".lock";
  if (writer->lock && writer->lock->path() == lock) return;
  try {
    writer->lock.emplace(lock, concat({"BackupAndRestore: backup_dir '", backup_dir, "'"}));
  } catch (const ConfigurationError& error) {
    // The chief before this one may hang, and hold the lock. When it has lost its world, it ends no
    // more than the save that it has begun.
    if (!training.takes_over()) throw;
    log_warning(concat({error.what()}));
  } catch (const Error& error) {
    const std::string message =
        concat({"BackupAndRestore: backup_dir '", backup_dir, "': ", error.what()});
    if (on_save_failure == OnSaveFailure::fail) throw Error(message);
    log_warning(message);
  }
}

/// The bytes of the newest backup that can be read.
LOCKSTEP_INLINE std::vector<std::byte> BackupAndRestore::read(std::uint64_t expected) const {
  auto found = detail::read_newest_snapshot(path(), expected, "BackupAndRestore",
                                            "remove the file to start from the beginning");
  if (!found) return {};
  if (!found->is_newest) writer->do_not_keep();
  log_line(concat({"resuming from '", found->path, "' at epoch ", found->file.snapshot.epoch + 1,
                   ", step ", found->file.snapshot.step}));
  return std::move(found->file.bytes);
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_batch_begin(Training& training,
                                                            std::int64_t) const {
  if (training.steps_to_update() == 1 && save_freq.at_step(training.iterations() + 1))
    training.verify_after_step();
}

LOCKSTEP_INLINE void BackupAndRestore::on_preemption(Training& training) const {
  if (!training.is_chief() || !save_before_preemption) return;
  finish_save(on_save_failure);
  take_snapshot(training);
  if (finish_all(on_save_failure))
    log_line(concat({"saved '", path(), "' before leaving: start the program again to continue"}));
  else
    log_warning(concat({"leaving without a new '", path(),
                        "': the program, started again, goes on from the one before, if any"}));
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_end(Training& training, Logs&) const {
  if (!training.is_chief()) return;
  if (delete_checkpoint && !training.restored_beyond_the_end()) {
    writer->forget_next();
    finish_save(OnSaveFailure::warn);          // no warning: the files are deleted anyway
    remove_file(previous_generation(path()));  // first: alone it would be taken for the newest
    remove_file(path());
  } else {
    finish_all(on_save_failure);
  }
  writer->free_memory();
  writer->lock.reset();
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_abort(Training& training) const {
  if (!training.is_chief() && !training.is_elastic()) return;  // it may have been
  if (training.is_chief()) {
    finish_all(OnSaveFailure::warn);
  } else {  // the chief after it saves what is newer
    writer->forget_next();
    writer->is_waiting = false;
    finish_save(OnSaveFailure::warn);
  }
  writer->free_memory();
  writer->lock.reset();
}

LOCKSTEP_INLINE void BackupAndRestore::save_when(Training& training, bool due) const {
  if (!training.is_chief()) return;
  if (!writer->is_running()) finish_save(on_save_failure);  // a failure shows at the next step
  if (due || writer->is_waiting) {
    writer->is_waiting = !training.is_verified();
    writer->is_waiting ? training.verify_after_step() : take_snapshot(training);
  }
  start_save(on_save_failure);
  if (!asynchronous) finish_save(on_save_failure);
}

LOCKSTEP_INLINE void BackupAndRestore::take_snapshot(const Training& training) const {
  writer->put([&](TrainingState reused) { return training.state(std::move(reused)); });
}

LOCKSTEP_INLINE bool BackupAndRestore::start_save(OnSaveFailure on_failure) const {
  if (!writer->needs_start()) return true;
  finish_save(on_failure);
  return detail::try_to_save(path(), on_failure, [this] { writer->start(path()); });
}

LOCKSTEP_INLINE bool BackupAndRestore::finish_save(OnSaveFailure on_failure) const {
  return detail::try_to_save(path(), on_failure, [this] { writer->finish(); });
}

/// Also writes what was due when a save has failed.
LOCKSTEP_INLINE bool BackupAndRestore::finish_all(OnSaveFailure on_failure) const {
  finish_save(on_failure);
  const bool has_started = start_save(on_failure);
  return finish_save(on_failure) && has_started;
}

}}  // namespace lockstep
