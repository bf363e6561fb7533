// find_batch_size: how large a batch is best, by measuring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/training/loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

class Training;

struct FindBatchSizeOptions {
  std::size_t memory = std::size_t{1} << 30;  ///< bytes that a step may take: see largest_batch
  std::int64_t smallest = 16;                 ///< the first batch, of all ranks together
  std::optional<std::int64_t> largest = std::nullopt;  ///< none beyond; default: what fits
  int steps = 8;            ///< that are measured with each batch; their median counts
  int warm_up = 2;          ///< and those before them
  double tolerance = 0.05;  ///< the suggestion is at most this much slower than the fastest
  int verbose = 1;          ///< 1: a line of the log for each batch; the chief alone
};

/// What find_batch_size has measured. The same on all workers.
struct BatchSizes {
  struct Trial {
    std::int64_t batch = 0;         ///< samples of all ranks together
    double samples_per_second = 0;  ///< likewise
    std::size_t memory = 0;         ///< bytes of a replica: see Budget
  };
  std::vector<Trial> trials{};
  std::int64_t suggestion = 0;    ///< the smallest one that is fast enough
  std::int64_t largest_fits = 0;  ///< the largest that the memory allows, measured or not
};

namespace detail {

/// Throws ConfigurationError unless they make sense.
void check(const FindBatchSizeOptions& options);
/// The batches that are measured: the smallest, rounded up to a multiple of the ranks, and twice as
/// many each time, the largest last. Throws ConfigurationError, naming the remedy, when none fits
/// into memory or has enough samples. `samples`: of the data; below 0: not known.
[[nodiscard]] std::vector<std::int64_t> batches_to_try(const FindBatchSizeOptions& options,
                                                       std::int64_t fits, std::int64_t samples,
                                                       int ranks);
/// Whether larger batches are of no use: the last two were slower than one before.
[[nodiscard]] bool has_passed_the_best(const std::vector<BatchSizes::Trial>& trials);
[[nodiscard]] std::int64_t fast_enough(const std::vector<BatchSizes::Trial>& trials,
                                       double tolerance);
void log_trial(const BatchSizes::Trial& trial);
void log_suggestion(const BatchSizes& found);

/// Reads a clock, in seconds, when a step begins.
struct StepClock {
  const std::function<double()>& now;
  int warm_up;
  std::vector<double> times{};

  void on_train_batch_begin(Training&, std::int64_t step) {
    if (step >= warm_up) times.push_back(now());
  }
  /// Seconds from one step to the next.
  [[nodiscard]] double median() const;
};

/// A monotonic clock.
[[nodiscard]] double seconds_now();

/// find_batch_size by another clock.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics,
          class Stages>
BatchSizes find_batch_size_by(Model<Net, T, S, LossType, OptimizerType, Metrics...>& model,
                              const Pipeline<Stages>& samples, const FindBatchSizeOptions& options,
                              const std::function<double()>& now) {
  static_assert(!Pipeline<Stages>::is_batched,
                "lockstep: find_batch_size makes the batches itself: leave out .batch(n)");
  using Files = ModelFiles<Model<Net, T, S, LossType, OptimizerType, Metrics...>>;
  check(options);
  auto& trainer = Files::trainer(model);
  AnyStrategy& strategy = strategy_of(trainer);
  const int ranks = strategy.num_replicas_in_sync();
  const OptimizerType& optimizer = Files::optimizer(model);
  const bool shares = strategy.sharded_updates(), shares_gradients = strategy.sharded_gradients();

  BatchSizes found;
  found.largest_fits = static_cast<std::int64_t>(
      largest_batch<Net, LossType, T>(options.memory, optimizer, ranks, shares, shares_gradients));
  const std::vector<std::int64_t> batches =
      batches_to_try(options, found.largest_fits, samples.cardinality(), ranks);
  const std::vector<std::byte> before = state_to_keep(trainer, "find_batch_size");
  const auto put_back = [&] { put_back_state(trainer, "find_batch_size", before); };
  try {
    for (const std::int64_t batch : batches) {
      StepClock clock{.now = now, .warm_up = options.warm_up};
      model.fit(samples.repeat().batch(batch),
                {.verbose = 0,
                 .steps_per_epoch = options.warm_up + options.steps + 1,
                 .verify_replicas = false},
                clock);
      const double seconds = chiefs_number(trainer, "find_batch_size", clock.median());
      found.trials.push_back(
          {.batch = batch,
           .samples_per_second = static_cast<double>(batch) / seconds,
           .memory = budget<Net, LossType, T>(static_cast<std::size_t>(batch), optimizer, ranks,
                                              shares, shares_gradients)
                         .memory});
      if (options.verbose > 0 && strategy.is_chief()) log_trial(found.trials.back());
      if (has_passed_the_best(found.trials)) break;
    }
  } catch (...) {
    // (Putting it back takes all workers, and one may be lost.)
    if (strategy.num_workers() == 1) put_back();
    throw;
  }
  put_back();
  found.suggestion = fast_enough(found.trials, options.tolerance);
  if (options.verbose > 0 && strategy.is_chief()) log_suggestion(found);
  return found;
}

}  // namespace detail

/// Finds a batch size by measuring: trains for a few steps with batches of 16, 32, 64 and so on, up
/// to the largest for which a step's memory, a constant of the model, fits, or until larger ones
/// are slower; and puts the model back as it was: weights, the optimizer's state and count of
/// updates, the place in the data (not after an exception with several workers). It suggests the
/// smallest batch that trains about as many samples a second as the fastest. Lightning's
/// BatchSizeFinder looks for the largest that does not fail.
///
/// `samples`: a pipeline before batch, which is repeated. All workers make the call, and get the
/// chief's figures. Batch sizes are global: the samples of all ranks together. Times differ from
/// run to run: let nothing else run meanwhile. Throws ConfigurationError for options that make no
/// sense, and when not even one sample a rank fits; what fit throws.
/// @code
/// const auto found = lockstep::find_batch_size(model, samples, {.memory = 4 * lockstep::GiB});
/// model.fit(samples.batch(found.suggestion), {.epochs = 10});
/// @endcode
/// Include <lockstep/saving/batch_size.hpp>.
/// Use: `find_batch_size(model, samples, {.memory = 4 * GiB})`. Keras: none.
template <class Net, class T, Strategy S, class LossType, class OptimizerType, class... Metrics,
          class Stages>
BatchSizes find_batch_size(Model<Net, T, S, LossType, OptimizerType, Metrics...>& model,
                           const Pipeline<Stages>& samples,
                           const FindBatchSizeOptions& options = {}) {
  return detail::find_batch_size_by(model, samples, options, detail::seconds_now);
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/batch_size.ipp"
#endif
