// Training: what a callback may see and do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/state_share.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Makes a state from the bytes of a checkpoint. Throws DataError when they are damaged.
using DecodeState = TrainingState (*)(std::span<const std::byte> bytes);
/// The reverse.
using EncodeState = std::vector<std::byte> (*)(const TrainingState& state);
/// The bytes of the newest backup, for DecodeState; empty when there is none. `expected`: of all
/// its arrays.
using ReadBackup = std::function<std::vector<std::byte>(std::uint64_t expected)>;

/// Reads what a worker needs of the sharded state that the bytes refer to; called by all workers.
using ReadShares = TrainingState (*)(std::span<const std::byte> reference,
                                     const detail::SlotRanges& needs, int worker,
                                     detail::Exchange exchange);

/// What one rank did in an epoch.
struct RankTime {
  double compute = 0;     ///< seconds outside the reductions
  double collective = 0;  ///< seconds in them: waiting for others, and moving data
};

/// A model as text; empty if the model's class does not describe its layers.
struct ModelText {
  std::string summary = {};  ///< what summary() prints
  std::string json = {};     ///< the layers, as TensorBoard reads Keras's JSON
};

/// The running fit (or evaluate, predict), as callbacks see it. Every worker runs every callback,
/// on the thread of its first replica; logs are equal on all workers, so a callback that decides by
/// logs decides alike on every worker, and may change the learning rate or the weights. A decision
/// to stop may differ: the workers agree on it.
class Training {
 public:
  virtual ~Training() = default;

  /// Asks all workers to end training: after the current batch when a hook of a batch asks;
  /// otherwise at the end of the epoch or, before it, after the next step. Validation and
  /// on_epoch_end still run.
  virtual void stop_training() = 0;

  /// In on_train_begin: until fit ends, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end the process
  /// but request preemption, with exit code 130 or, after the others, 143. A second one, a second
  /// or more later, ends it. (Signals that the program ignores stay ignored, and the program's own
  /// handler for SIGUSR1 stays.)
  virtual void preempt_on_signals() = 0;

  /// Asks all workers to save and to end, because this process must stop. They agree on a step as
  /// for stop_training; after it, or at the end of the epoch, the hook on_preemption is called on
  /// all of them, and fit throws Preempted with this exit code. One worker or several may ask for
  /// it. Throws ConfigurationError when the code is neither ExitCode::interrupted nor
  /// ExitCode::terminated.
  virtual void request_preemption(ExitCode code) = 0;

  /// The rate of the next step. The logs of an epoch have it as "learning_rate", unless it is
  /// simply the number that compile was given.
  [[nodiscard]] virtual double learning_rate() const = 0;
  /// Takes effect in the next step. All workers must call it alike. Throws ConfigurationError
  /// unless it is finite and at least 0, and if the optimizer has a schedule.
  virtual void set_learning_rate(double learning_rate) = 0;

  /// Optimizer updates made so far.
  [[nodiscard]] virtual std::int64_t iterations() const = 0;

  /// With the optimizer's gradient_accumulation_steps: steps since the last update whose gradients
  /// wait for the next one. While there are some, state() is that after the last update (or after
  /// the last epoch, if that is later), to which these steps are made again.
  [[nodiscard]] virtual std::int64_t steps_waiting() const { return 0; }
  /// Steps until the next update, the coming one included.
  [[nodiscard]] virtual std::int64_t steps_to_update() const { return 1; }

  /// Whether the optimizer keeps moving averages of the weights (use_ema).
  [[nodiscard]] virtual bool has_averages() const { return false; }
  /// Swaps weights and averages, until the next epoch begins. All workers must call it alike, and
  /// not in the on_test_batch_... and on_train_batch_... hooks.
  virtual void swap_averages() {}
  /// Whether they are swapped.
  [[nodiscard]] virtual bool shows_averages() const { return false; }

  [[nodiscard]] virtual bool is_chief() const = 0;
  [[nodiscard]] virtual int worker_index() const = 0;
  [[nodiscard]] virtual int num_workers() const = 0;

  /// For each rank, what it did in the steps of the last epoch that has ended (from on_epoch_end
  /// on); empty before and outside of fit. Equal on all workers.
  [[nodiscard]] virtual std::span<const RankTime> rank_times() const = 0;

  /// Whether fit validates after one of its epochs, so that logs have val_ figures then.
  [[nodiscard]] virtual bool has_validation() const { return false; }

  [[nodiscard]] virtual ModelText model_text() const = 0;
  /// Where Keras's files have the variables of state(); empty where the model tells nothing.
  [[nodiscard]] virtual KerasLayout keras_layout() const { return {}; }
  /// The optimizer's state of state() as these files have it; without a name where Keras has no
  /// optimizer like it.
  [[nodiscard]] virtual KerasOptimizer keras_optimizer(const TrainingState& /*state*/) const {
    return {};
  }

  /// A snapshot from which a run continues to the same bits. It is complete in the hooks
  /// on_epoch_complete, on_train_batch_complete, on_preemption and on_train_end. The arrays are put
  /// into the memory of `reused`, a snapshot that is no longer needed, where they fit. With
  /// sharded_updates the chief alone has it, where is_verified() says so; elsewhere it throws
  /// Error.
  [[nodiscard]] virtual TrainingState state(TrainingState reused = {}) const = 0;

  /// This worker's share of state(), where that is complete, on every worker, and with
  /// sharded_updates without the slots of others: see detail::ShardedSave. The arrays are put into
  /// the memory of `reused` where they fit. Throws Error with parameter servers.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  [[nodiscard]] virtual detail::StateShare share(detail::StateShare /*reused*/ = {}) const {
    throw Error("this training has no shares of a state: leave .sharded out");
  }
  /// Sends each worker's text to all; returns the texts of all, by worker. All workers must call it
  /// alike, in hooks of fit other than on_train_abort.
  [[nodiscard]] virtual std::vector<std::string> exchange(const std::string& mine) {
    return {mine};
  }
  /// Whether workers can write shares: not with parameter servers, nor in an elastic world.
  [[nodiscard]] virtual bool has_shares() const { return !is_elastic(); }

  /// Bytes of all arrays of state().
  [[nodiscard]] virtual std::uint64_t state_bytes() const = 0;

  /// For a callback that is about to save: called in on_train_batch_begin, on any worker, it makes
  /// all ranks compare the checksums of their replicas after the coming step (see
  /// FitOptions::verify_replicas), so that no differing state is saved.
  virtual void verify_after_step() = 0;
  /// Whether the ranks have compared their replicas since the last step, or need not. They have in
  /// the hooks on_epoch_end, on_epoch_complete, on_preemption and on_train_end, and in
  /// on_train_batch_complete after verify_after_step.
  [[nodiscard]] virtual bool is_verified() const = 0;

  /// In on_train_begin, on every worker: training goes on from the chief's `saved` bytes, which are
  /// sent to all and turned into a state by `decode`; what other workers pass is ignored, and empty
  /// bytes restore nothing. fit throws ConfigurationError when the state belongs to another model,
  /// naming the difference; only the learning rate may differ: that of the state is used then.
  /// It throws it, too, when the state is in the middle of a pass over other data. `allow_changes`:
  /// see BackupAndRestore.
  virtual void restore(std::vector<std::byte> saved, DecodeState decode,
                       bool allow_changes = false) = 0;

  /// In on_train_begin, on every worker: how bytes that refer to a sharded state are read.
  virtual void read_shares_with(ReadShares /*read*/) {}

  /// In on_train_begin, in place of restore, where the saved state cannot be read: throws `reason`.
  /// But where takes_over(), training goes on from the state of the workers that were there, with a
  /// warning; only if none of them has it, fit throws `reason`.
  virtual void cannot_restore(const std::exception_ptr& reason) { std::rethrow_exception(reason); }

  /// In on_train_end: whether the restored state was already past this fit's last epoch, so that
  /// fit did nothing.
  [[nodiscard]] virtual bool restored_beyond_the_end() const { return false; }

  /// In on_train_begin, on every worker: when another worker is lost, fit does not throw but waits
  /// until it has been started again, and goes on with all workers from the state of the survivor
  /// that has come furthest, which is sent by `encode` and `decode`. Workers that are started again
  /// must come to this fit without other calls that all workers make together, but for compile, and
  /// no callback may use a model in its on_train_begin. What a callback had changed in a step or a
  /// validation that was cut off stays (a learning rate, say), and its hook is called again. A
  /// worker that is lost before training begins ends the run. While a worker waits, at most
  /// startup_timeout, SIGINT and SIGTERM end it. Needs a strategy that can reconnect.
  virtual void rejoin_on_peer_loss(EncodeState encode, DecodeState decode) = 0;
  /// Whether fit goes on with fewer or more workers (ElasticOptions). Then another worker may
  /// become the chief: its on_train_begin is called again, before the callbacks' states are
  /// restored; and of one that no longer is, on_train_abort.
  [[nodiscard]] virtual bool is_elastic() const { return false; }
  /// Elastic: whether this worker may take over from another chief, which may still hold a file or
  /// a lock.
  [[nodiscard]] virtual bool takes_over() const { return false; }
  /// With rejoin_on_peer_loss: where no survivor has the whole state (sharded_updates, rounds), all
  /// go on from what the chief reads.
  virtual void backup_for_rejoin(const ReadBackup& /*read*/) {}

  /// The values of all variables, also of those that are not trained (moving statistics), in an
  /// internal order, for set_parameters. Equal on all workers from the first epoch on.
  [[nodiscard]] virtual std::vector<std::byte> parameters() const = 0;
  /// Sets them in all replicas of this worker. All workers must call it alike, and not in the
  /// on_test_batch_... hooks; in on_train_end, the chief's go to all workers. Throws Error when the
  /// size differs.
  virtual void set_parameters(std::span<const std::byte> parameters) = 0;
};

}}  // namespace lockstep
