// LocalSGD and DiLoCo: ranks communicate only after a round of steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Each rank makes `steps` steps by itself, with its own optimizer; then the parameters of all
/// ranks become their mean (Stich, "Local SGD Converges Fast and Communicates Little", 2019).
struct LocalSGD {
  std::int64_t steps = 16;  ///< of a round, at least 1
};

/// Each rank makes `steps` steps by itself, with its own optimizer (the paper's is AdamW); then
/// their mean progress is the gradient of an outer optimizer (Douillard et al., "DiLoCo:
/// Distributed Low-Communication Training of Language Models", 2023):
///
///   g = w - mean of the ranks' w'       w: after the last round, w': after this one's steps
///   m = momentum * m + g
///   w = w - learning_rate * (g + momentum * m)      without nesterov: w - learning_rate * m
struct DiLoCo {
  std::int64_t steps = 500;  ///< of a round, at least 1
  double learning_rate = 0.7;
  double momentum = 0.9;  ///< in [0, 1)
  bool nesterov = true;
};

/// When the ranks communicate: CompileOptions::synchronization. Made of one of the above. By
/// default they do in every step, which alone gives the result of a single rank.
///
/// With rounds, each rank of a strategy (a thread of MirroredStrategy too) trains on its own part
/// of each global batch, and divides by its rows. Between two meetings ranks differ, and send
/// nothing:
///
/// - A round ends after `steps` steps, at the end of an epoch (whatever the number of steps), and
///   when a rank has no data left. So validation, the hooks of an epoch, and what fit leaves have
///   the parameters of all ranks together; the next epoch begins a new round.
/// - The mean is over the ranks that have made an update in the round. Moving statistics (batch
///   normalisation) become their mean as well, weighted with the samples of the round, as do moving
///   averages of the weights (use_ema). The optimizer's slots stay with their rank.
/// - Losses and metrics are added up by each rank and summed over the ranks when they meet: those
///   of an epoch are exact. The logs of a batch are those of the last meeting in the epoch; before
///   the first, they are empty.
/// - Requests (stop_training, preemption, a save) take effect when the ranks meet: a round should
///   be shorter than the time that a scheduler leaves to a process. A state is saved after a
///   meeting, and has the slots of all ranks: fit continues from it to the same bits with as many
///   ranks. Other numbers of ranks can continue too; rank r then gets the slots that rank r mod n
///   of the n saved ones had.
/// - Clipping, constraints, weight decay, schedules and stop_on_non_finite act in each rank's own
///   steps. Constraints hold after the outer update too. What sums over replicas
///   (BatchNormalization's `synchronized`, ActivityRegularization) sums over its own rank alone.
///
/// A rank whose data end early waits at each meeting for the others' rounds: the communication
/// option progress_timeout must be longer than a round.
///
/// A lost worker takes its slots and its round along: with OnPeerLoss::rejoin or
/// MultiWorkerMirroredOptions::elastic, all go on from the last backup, and without one they end. A
/// worker that joins an elastic world is taken in when the ranks meet, and no step is lost.
///
/// With GlobalBatch::follows_world, each worker's part of a batch stays, and so do the steps of a
/// round, whatever the world.
///
/// Refused: gradient_accumulation_steps, train_on_batch and custom loops.
class Synchronization {
 public:
  constexpr Synchronization() noexcept = default;
  // (Implicit, so that they can be given as a Synchronization.)
  constexpr Synchronization(const LocalSGD& options) noexcept  // NOLINT(*-explicit-*)
      : name_("LocalSGD"), steps_(options.steps) {}
  constexpr Synchronization(const DiLoCo& options) noexcept  // NOLINT(*-explicit-*)
      : name_("DiLoCo"),
        steps_(options.steps),
        learning_rate_(options.learning_rate),
        momentum_(options.momentum),
        nesterov_(options.nesterov) {}

  /// Whether there are rounds.
  [[nodiscard]] constexpr bool is_in_rounds() const noexcept { return !name_.empty(); }
  [[nodiscard]] constexpr std::int64_t steps() const noexcept { return steps_; }
  [[nodiscard]] constexpr double learning_rate() const noexcept { return learning_rate_; }
  [[nodiscard]] constexpr double momentum() const noexcept { return momentum_; }
  [[nodiscard]] constexpr bool nesterov() const noexcept { return nesterov_; }
  /// Whether parameters simply become the mean.
  [[nodiscard]] constexpr bool is_mean() const noexcept {
    return learning_rate_ == 1 && momentum_ == 0;
  }

  /// "DiLoCo(steps=500, learning_rate=0.7, momentum=0.9, nesterov=true)"; "" without rounds.
  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError when an option makes no sense.
  void validate() const;

 private:
  std::string_view name_;
  std::int64_t steps_ = 1;
  double learning_rate_ = 1;
  double momentum_ = 0;
  bool nesterov_ = false;
};

inline std::string Synchronization::description() const {
  if (!is_in_rounds()) return {};
  if (name_ == "LocalSGD") return describe(name_, {{"steps", steps_}});
  return describe(name_, {{"steps", steps_},
                          {"learning_rate", learning_rate_},
                          {"momentum", momentum_},
                          {"nesterov", nesterov_}});
}

inline void Synchronization::validate() const {
  if (!is_in_rounds()) return;
  detail::require_count(name_, "steps", steps_, 1);
  detail::require_not_negative(name_, "learning_rate", learning_rate_);
  detail::require_decay_rate(name_, "momentum", momentum_);
}

}}  // namespace lockstep
