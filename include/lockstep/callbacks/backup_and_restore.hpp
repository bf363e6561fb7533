// BackupAndRestore: an interrupted run continues where it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/frequency.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What happens when a save fails (disk full, no permission). The older backup stays in either
/// case.
enum class OnSaveFailure {
  fail,  ///< training ends on all workers, with an error that names the file
  warn,  ///< training goes on, with a warning each time
};

/// What this worker does when a peer is lost (killed, hung, unplugged).
enum class OnPeerLoss {
  fail,    ///< fit throws, and the process ends with exit code 138; start all workers again
  rejoin,  ///< it waits until the lost worker is started again: see Training::rejoin_on_peer_loss
};

namespace detail {
class BackupWriter;
[[nodiscard]] std::shared_ptr<BackupWriter> make_backup_writer();
}  // namespace detail

/// Saves the whole training state (variables, optimizer, epoch, step, position in the data, seed,
/// other callbacks) to `backup_dir`/training_state, and continues from it, to the same bits, when
/// fit finds one at its start; this overrides initial_epoch. The chief alone reads and writes, and
/// sends the state to the others, so the folder need not be shared. The backup is deleted at a
/// normal end and kept when fit ends by an exception or the process is killed.
///
/// The backup before the last one is kept as training_state.previous: if the last one is damaged,
/// training continues from that one, and the log says so. While fit runs, the file
/// training_state.lock keeps other jobs out of the folder. The replicas are compared before each
/// save (see FitOptions::verify_replicas).
///
/// Where Keras starts the data at its beginning when it resumes, this continues at the exact
/// sample. As in Keras, the History of a resumed fit has the epochs of this fit only: none when the
/// saved run had ended, which the log says.
///
/// A warning says where the program has another seed, other data or class weights than the saved
/// training, with both values. See allow_changes.
///
/// Several fits of a model, one after the other, may have one folder: a program that is started
/// again goes on in the one that was under way. Serves one fit at a time; its hooks run on the
/// thread of the first replica.
/// Use: `BackupAndRestore{.backup_dir = "backup", .save_freq = 100}`.
struct BackupAndRestore {
  std::string backup_dir;
  SaveFrequency save_freq = SaveFrequency::epoch;
  bool delete_checkpoint = true;
  /// After SIGINT, SIGTERM, SIGHUP or SIGUSR1 on one worker, all workers save after the same step,
  /// and fit throws Preempted, which lockstep::run turns into exit code 130 or 143. (Keras's
  /// default is false, which loses the work since the last save.)
  bool save_before_preemption = true;
  /// A copy of the state is taken, into memory that is kept from save to save, and a thread writes
  /// it while training goes on. A save that is due while the one before is still being written is
  /// copied too, and written next (only the newest, if several were due), so that a slow disk never
  /// delays the steps. However fit ends, a save that was due is written first.
  bool asynchronous = true;
  /// A failure of the thread shows at the next step.
  OnSaveFailure on_save_failure = OnSaveFailure::fail;
  OnPeerLoss on_peer_loss = OnPeerLoss::fail;
  /// Goes on with a backup in the middle of a pass over other data, where its place means nothing
  /// in this program's; and with other numbers among the options of the same optimizer (momentum,
  /// weight decay, clipping). Both are logged. Otherwise fit throws ConfigurationError.
  bool allow_changes = false;
  /// Each worker writes its share, in parallel: of variables a part, and of the slots of
  /// sharded_updates those that it has, without gathering them. The backup is then the folder
  /// `backup_dir`/training_state.ckpt, which all workers must see (a shared file system), with a
  /// file of each and a manifest; any number of workers goes on from it. The manifest is written
  /// last: at the step after which all have written. A save that is due before that waits for it,
  /// and one that fit has begun when it throws is lost. Not with OnPeerLoss::rejoin, nor in an
  /// elastic world, nor with parameter servers: on_train_begin throws ConfigurationError. A backup
  /// that was written without this option is taken, too, and the other way round.
  bool sharded = false;
  /// Not an option: copies of a callback share the thread.
  std::shared_ptr<detail::BackupWriter> writer = detail::make_backup_writer();

  [[nodiscard]] std::string path() const {
    return backup_dir + (sharded ? "/training_state.ckpt" : "/training_state");
  }
  /// Not an option: for fit, which gathers the state for a callback that saves it whole.
  [[nodiscard]] bool needs_whole_state() const noexcept { return !sharded; }

  /// Throws DataError naming the files when every backup is damaged, and ConfigurationError when no
  /// folder is named or another job uses it.
  void on_train_begin(Training& training) const;
  void on_epoch_complete(Training& training, int) const {
    save_when(training, save_freq.at_epoch());
  }
  void on_train_batch_begin(Training& training, std::int64_t) const;
  void on_train_batch_complete(Training& training, std::int64_t) const {
    save_when(training, training.steps_waiting() == 0 && save_freq.at_step(training.iterations()));
  }
  void on_preemption(Training& training) const;
  void on_train_end(Training& training, Logs& logs) const;
  void on_train_abort(Training& training) const;

 private:
  void lock_folder(const Training& training) const;
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t expected) const;
  void save_when(Training& training, bool due) const;
  void take_snapshot(const Training& training) const;
  void save_shares_when(Training& training, bool due) const;
  void start_shares(Training& training) const;
  bool finish_shares(Training& training, OnSaveFailure on_failure) const;
  void drop_shares() const;
  // Whether what they write is written.
  bool start_save(OnSaveFailure on_failure) const;
  bool finish_save(OnSaveFailure on_failure) const;
  bool finish_all(OnSaveFailure on_failure) const;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/backup_and_restore.ipp"
#endif
