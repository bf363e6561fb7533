#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_lock.hpp"
#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/snapshot_writer.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// What the copies of a BackupAndRestore share. Only one thread may call the members.
class BackupWriter : public SnapshotWriter<> {
 public:
  std::optional<FileLock> lock;         ///< on the folder
  bool is_waiting = false;              ///< a save is due and waits for the replicas to be compared
  std::optional<ShardedSave> shares{};  ///< under way, with .sharded
  StateShare share{};
  BackgroundTask task{};  // ends before these
};

LOCKSTEP_INLINE TrainingState read_backup_shares(std::span<const std::byte> reference,
                                                 const SlotRanges& needs, int worker,
                                                 Exchange exchange) {
  const std::string path = path_of_shares(reference).value_or(std::string());
  try {
    return read_sharded_state(path, needs, worker, exchange, true);
  } catch (const DataError& error) {
    throw DataError(concat({"BackupAndRestore: ", error.what(), "; or remove the folder ",
                            in_quotes(path), " to start from the beginning"}));
  }
}

[[nodiscard]] LOCKSTEP_INLINE std::string failure_text(const std::string& path,
                                                       std::string_view what) {
  return concat(
      {"BackupAndRestore: saving to '", path, "' failed: ", what, "; an older backup is unharmed"});
}

/// Whether that worked.
template <class F>
bool try_to_save(const std::string& path, OnSaveFailure on_failure, F save) {
  try {
    save();
    return true;
  } catch (const std::exception& error) {
    const std::string message = failure_text(path, error.what());
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
  if (sharded && on_peer_loss == OnPeerLoss::rejoin)
    throw ConfigurationError(
        "BackupAndRestore: .sharded with OnPeerLoss::rejoin: the workers are not all there when a "
        "save ends: leave .sharded out");
  if (sharded) detail::check_has_shares("BackupAndRestore", training.has_shares());
  drop_shares();
  std::vector<std::byte> saved;
  if (training.is_chief()) {
    finish_all(OnSaveFailure::warn);  // outside of fit no on_train_abort is called
    lock_folder(training);
    remove_stale_temporaries(path());
    try {
      saved = read(training.state_bytes());
    } catch (const DataError&) {
      training.cannot_restore(std::current_exception());
      writer->do_not_keep();
    }
  }
  training.read_shares_with(&detail::read_backup_shares);
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
  const std::string lock = backup_dir + "/training_state.lock";
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
  const std::string file = backup_dir + "/training_state", shares = file + ".ckpt";
  const bool has_shares = detail::is_sharded_state(shares);
  const auto take_shares = [&] {
    log_line(concat({"resuming from '", shares, "'"}));
    return detail::reference_to_shares(shares);
  };
  std::optional<detail::NewestSnapshot> found;
  try {
    found = detail::read_newest_snapshot(file, expected, "BackupAndRestore",
                                         "remove the file to start from the beginning");
  } catch (const DataError& error) {
    if (!has_shares) throw;
    log_warning(concat({error.what(), "; going on from ", in_quotes(shares)}));
  }
  if (!found) return has_shares ? take_shares() : std::vector<std::byte>();
  // A save of one kind may leave a backup of the other.
  const std::int64_t updates = found->file.snapshot.iterations;
  const auto of_shares = detail::updates_of_sharded_state(shares);
  if (of_shares && (sharded ? *of_shares >= updates : *of_shares > updates)) return take_shares();
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
  if (!save_before_preemption || !(sharded || training.is_chief())) return;
  bool is_saved = false;
  if (sharded) {
    finish_shares(training, on_save_failure);
    start_shares(training);
    is_saved = finish_shares(training, on_save_failure);
  } else {
    finish_save(on_save_failure);
    take_snapshot(training);
    is_saved = finish_all(on_save_failure);
  }
  if (!training.is_chief()) return;
  if (is_saved)
    log_line(concat({"saved '", path(), "' before leaving: start the program again to continue"}));
  else
    log_warning(concat({"leaving without a new '", path(),
                        "': the program, started again, goes on from the one before, if any"}));
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_end(Training& training, Logs&) const {
  const bool deletes = delete_checkpoint && !training.restored_beyond_the_end();
  if (sharded) finish_shares(training, deletes ? OnSaveFailure::warn : on_save_failure);
  writer->share = {};
  if (!training.is_chief()) return;
  if (deletes) {
    writer->forget_next();
    finish_save(OnSaveFailure::warn);  // no warning: the files are deleted anyway
    const std::string file = backup_dir + "/training_state";
    remove_file(previous_generation(file));  // first: alone it would be taken for the newest
    remove_file(file);
    detail::remove_sharded_state(file + ".ckpt");
  } else {
    finish_all(on_save_failure);
  }
  writer->free_memory();
  writer->lock.reset();
}

LOCKSTEP_INLINE void BackupAndRestore::on_train_abort(Training& training) const {
  drop_shares();
  if (!training.is_chief() && !training.is_elastic()) return;  // it may have been
  if (training.is_chief()) {
    finish_all(OnSaveFailure::warn);
  } else {  // the chief after it saves what is newer
    writer->forget_next();
    finish_save(OnSaveFailure::warn);
  }
  writer->free_memory();
  writer->lock.reset();
}

// With .sharded, all workers call these alike.

LOCKSTEP_INLINE void BackupAndRestore::save_shares_when(Training& training, bool due) const {
  if (writer->shares) {
    const std::string_view written = "written";
    const auto all = training.exchange(std::string(writer->task.is_running() ? "" : written));
    if (due || std::count(all.begin(), all.end(), written) == std::ssize(all))
      finish_shares(training, on_save_failure);
  }
  if (!due && !writer->is_waiting) return;
  writer->is_waiting = !training.is_verified();
  if (writer->is_waiting) return training.verify_after_step();
  finish_shares(training, on_save_failure);
  start_shares(training);
  if (!asynchronous) finish_shares(training, on_save_failure);
}

LOCKSTEP_INLINE void BackupAndRestore::start_shares(Training& training) const {
  writer->share = training.share(std::move(writer->share));
  writer->shares.emplace(path(), training.worker_index(),
                         [&](const std::string& mine) { return training.exchange(mine); });
  const auto write = [own = writer.get()] { own->shares->write(own->share); };
  try {
    writer->task.start(write);
  } catch (const Error&) {  // the system has no thread left
    write();
  }
}

/// Whether what was under way is saved.
LOCKSTEP_INLINE bool BackupAndRestore::finish_shares(Training& training,
                                                     OnSaveFailure on_failure) const {
  if (!writer->shares) return true;
  writer->task.finish();
  const std::string errors = writer->shares->commit(
      FormerFile::kept, [&](const std::string& mine) { return training.exchange(mine); });
  writer->shares.reset();
  if (errors.empty()) {
    if (!training.is_chief()) return true;
    const std::string file = backup_dir + "/training_state";  // that is older
    std::error_code ignored;
    std::filesystem::remove(previous_generation(file), ignored);
    std::filesystem::remove(file, ignored);
    return true;
  }
  const std::string message = detail::failure_text(path(), errors);
  if (on_failure == OnSaveFailure::fail) throw Error(message);
  if (training.is_chief()) log_warning(message);
  return false;
}

/// The other workers may be gone: nothing is exchanged with them.
LOCKSTEP_INLINE void BackupAndRestore::drop_shares() const {
  writer->task.finish();
  if (writer->shares) writer->shares->abandon();
  writer->shares.reset();
  writer->share = {};
  writer->is_waiting = false;
}

LOCKSTEP_INLINE void BackupAndRestore::save_when(Training& training, bool due) const {
  if (sharded) return save_shares_when(training, due);
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
