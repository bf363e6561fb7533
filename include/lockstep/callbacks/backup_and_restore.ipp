#pragma once

#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/background_task.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_lock.hpp"
#include "lockstep/checkpoint/snapshot_file.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Writes snapshots to a file, one after the other, on a thread of its own. Only one thread may
/// call the members.
class BackupWriter {
 public:
  std::optional<FileLock> lock;  ///< on the folder
  bool is_waiting = false;       ///< a save is due and waits for the replicas to be compared

  /// Takes `get_state(reused)` to be written next, in place of an earlier state that still waits.
  template <class GetState>
  void put(const GetState& get_state) {
    const std::lock_guard guard(mutex_);
    if (!is_writing_) std::swap(current_, next_);  // then one of the two is enough
    has_next_ = false;                             // get_state may throw, and has taken next_ then
    next_ = get_state(std::move(next_));
    has_next_ = true;
  }
  void forget_next() {
    const std::lock_guard guard(mutex_);
    has_next_ = false;
  }
  /// Whether a state waits that no thread is going to write.
  [[nodiscard]] bool needs_start() {
    const std::lock_guard guard(mutex_);
    return has_next_ && !is_writing_;
  }
  /// Writes it, on the calling thread if the system has no other left. Call this when needs_start() and
  /// after finish(). Throws the error of a write on the calling thread.
  void start(const std::string& path) {
    {
      const std::lock_guard guard(mutex_);
      take_next();
    }
    try {
      task_.start([this, path] { write_all(path); });
    } catch (const Error&) {
      write_all(path);
    }
  }
  [[nodiscard]] bool is_running() const { return task_.is_running(); }
  /// Waits until everything is written. Throws the error of a write that failed.
  void finish() { task_.finish(); }

  /// The existing file is damaged, and not worth keeping beside the next one.
  void do_not_keep() { former_ = FormerFile::removed; }
  void free_memory() { current_ = next_ = {}; }

 private:
  bool take_next() {
    is_writing_ = std::exchange(has_next_, false);
    if (is_writing_) std::swap(current_, next_);
    return is_writing_;
  }

  void write_all(const std::string& path) {
    try {
      for (bool more = true; more;) {
        save_snapshot(path, current_, former_);
        former_ = FormerFile::kept;
        const std::lock_guard guard(mutex_);
        more = take_next();
      }
    } catch (...) {
      const std::lock_guard guard(mutex_);
      is_writing_ = false;
      throw;
    }
  }

  std::mutex mutex_;
  TrainingState current_, next_;  // what is being written, and what comes after it
  bool is_writing_ = false;
  bool has_next_ = false;
  FormerFile former_ = FormerFile::kept;
  BackgroundTask task_;  // ends before the others go
};

template <class F>
void try_to_save(const std::string& path, OnSaveFailure on_failure, F save) {
  try {
    save();
  } catch (const std::exception& error) {
    const std::string message =
        concat({"BackupAndRestore: saving to '", path, "' failed: ", error.what(), "; an older backup is unharmed"});
    if (on_failure == OnSaveFailure::fail) throw Error(message);
    log_line("warning: " + message);
  }
}

LOCKSTEP_INLINE std::shared_ptr<BackupWriter> make_backup_writer() { return std::make_shared<BackupWriter>(); }

}  // namespace detail

LOCKSTEP_INLINE void BackupAndRestore::on_train_begin(Training& training) const {
  if (backup_dir.empty()) throw ConfigurationError("BackupAndRestore: backup_dir is empty: name a folder");
  std::vector<std::byte> saved;
  if (training.is_chief()) {
    finish_all(OnSaveFailure::warn);  // without fit there is no on_train_abort
    writer->is_waiting = false;
    lock_folder();
    remove_stale_temporaries(path());
    saved = read(training.state_bytes());
  }
  training.restore(std::move(saved), &decode_checkpoint);
  if (save_before_preemption) training.preempt_on_signals();
  if (on_peer_loss == OnPeerLoss::rejoin) training.rejoin_on_peer_loss(&encode_checkpoint, &decode_checkpoint);
}

LOCKSTEP_INLINE void BackupAndRestore::lock_folder() const {
  const std::string lock = path() + ".lock";
  if (writer->lock && writer->lock->path() == lock) return;
  try {
    writer->lock.emplace(lock, concat({"BackupAndRestore: backup_dir '", backup_dir, "'"}));
  } catch (const ConfigurationError&) {
    throw;
  } catch (const Error& error) {
    const std::string message = concat({"BackupAndRestore: backup_dir '", backup_dir, "': ", error.what()});
    if (on_save_failure == OnSaveFailure::fail) throw Error(message);
    log_line("warning: " + message);
  }
}

/// The bytes of the newest backup that can be read.
LOCKSTEP_INLINE std::vector<std::byte> BackupAndRestore::read(std::uint64_t expected) const {
  std::string failures;
  for (const std::string& file : {path(), previous_generation(path())}) {
    try {
      auto found = read_snapshot(file, expected);
      if (!found) continue;
      if (!failures.empty()) {
        log_line(concat({"warning: BackupAndRestore: ", failures, "; going on from the backup before it"}));
        writer->do_not_keep();
      }
      log_line(
          concat({"resuming from '", file, "' at epoch ", found->snapshot.epoch + 1, ", step ", found->snapshot.step}));
      return std::move(found->bytes);
    } catch (const Error& error) {
      failures += concat({failures.empty() ? "'" : "; '", file, "': ", error.what()});
    }
  }
  if (failures.empty()) return {};
  throw DataError(concat({"BackupAndRestore: ", failures, "; remove the file to start from the beginning"}));
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_batch_begin(Training& training, std::int64_t) const {
  if (save_freq.at_step(training.iterations() + 1)) training.verify_after_step();
}

LOCKSTEP_INLINE void BackupAndRestore::on_preemption(Training& training) const {
  if (!training.is_chief() || !save_before_preemption) return;
  finish_save(on_save_failure);
  take_snapshot(training);
  finish_all(on_save_failure);
  log_line(concat({"saved '", path(), "' before leaving: start the program again to go on"}));
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_end(Training& training, Logs&) const {
  if (!training.is_chief()) return;
  if (delete_checkpoint) {
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
  if (!training.is_chief()) return;
  finish_all(OnSaveFailure::warn);
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

LOCKSTEP_INLINE void BackupAndRestore::start_save(OnSaveFailure on_failure) const {
  if (!writer->needs_start()) return;
  finish_save(on_failure);
  detail::try_to_save(path(), on_failure, [this] { writer->start(path()); });
}

LOCKSTEP_INLINE void BackupAndRestore::finish_save(OnSaveFailure on_failure) const {
  detail::try_to_save(path(), on_failure, [this] { writer->finish(); });
}

/// Also writes what was due when a save has failed.
LOCKSTEP_INLINE void BackupAndRestore::finish_all(OnSaveFailure on_failure) const {
  finish_save(on_failure);
  start_save(on_failure);
  finish_save(on_failure);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
