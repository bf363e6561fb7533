// The checks of fit's options, and what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A place between two steps of fit: in the epochs and in the data, with the sums of the epoch so
/// far.
struct TrainingPosition {
  std::int64_t epoch = 0;           ///< index of the epoch to go on in
  std::int64_t step = 0;            ///< steps of it that were made
  std::int64_t data_iteration = 0;  ///< number of the pass over the data
  std::int64_t data_position = 0;   ///< global batches of it that were used
  /// Samples in the global batches that data_position counts; 0: unknown; 1: these had several
  /// sizes, and it counts samples.
  std::int64_t batch = 0;
  std::vector<double> running{};  ///< the sums, as StatusBlock::saved(); empty for none
  bool is_epoch_open = false;     ///< the epoch before this one is not completed

  /// Training has ended. (Sums before the first step of an epoch are those of no step, in
  /// which all have agreed to stop.)
  [[nodiscard]] bool has_ended() const {
    return step == 0 && !running.empty() && running[StatusBlock::stop] > 0;
  }
  /// `metric_state`: that of the program's StatusBlocks.
  void set_ended(std::size_t metric_state) {
    StatusBlock status(metric_state);
    status[StatusBlock::stop] = 1;
    keep(status);
  }
  void keep(const StatusBlock& sums) { running.assign(sums.saved().begin(), sums.saved().end()); }

  /// Puts the place into a snapshot.
  void save(TrainingState& saved) const {
    saved.epoch = epoch;
    saved.step = step;
    saved.data_iteration = data_iteration;
    saved.data_position = data_position;
    saved.running = running;
    saved.global_batch = batch;
    saved.is_epoch_open = is_epoch_open;
  }

  /// The place in a snapshot. Throws ConfigurationError when the sums are those of other metrics,
  /// and DataError when they or the place cannot come from a training.
  [[nodiscard]] static TrainingPosition take(const TrainingState& saved, std::size_t metric_state) {
    const std::size_t sums = StatusBlock(metric_state).saved().size();
    if (!saved.running.empty() && saved.running.size() != sums)
      throw ConfigurationError("fit: the saved state has other metrics than this program");
    TrainingPosition position{.epoch = saved.epoch,
                              .step = saved.step,
                              .data_iteration = saved.data_iteration,
                              .data_position = saved.data_position,
                              .batch = saved.global_batch,
                              .running = saved.running,
                              .is_epoch_open = saved.is_epoch_open};
    position.check();
    return position;
  }

 private:
  void check() const {
    check_range("the number of samples in a global batch", batch, 0, largest_count);
    if (batch > 0) check_range("data_position", data_position, 0, largest_count / batch);
    if (running.empty()) return;
    for (const auto count : {StatusBlock::samples, StatusBlock::rows, StatusBlock::has_next,
                             StatusBlock::non_finite, StatusBlock::stop})
      if (!(running[count] >= 0 && running[count] <= static_cast<double>(largest_count)))
        throw DataError(
            concat({"checkpoint: the running sum ", static_cast<std::size_t>(count), " is ",
                    running[count], ", expected a count of 0 to ", largest_count}));
  }
};

struct FitPlan {
  std::int64_t steps = unknown_cardinality;  ///< of a pass over this worker's data
  bool steps_may_differ = false;             ///< on another worker
  std::string signature = {};                ///< what the workers must have in common
  bool new_pass_each_epoch = true;  ///< else the epochs go on with the same pass over the data
  std::optional<std::int64_t> target = std::nullopt;  ///< steps of an epoch, where known
  std::vector<double> class_weight = {};              ///< of class 0, 1, ...; empty: 1
  bool counts_samples = false;  ///< the place in the data is in samples: batches have any size

  /// Decides new_pass_each_epoch and target, given the steps of the longest pass of all workers.
  /// Throws DataError when there are none.
  void decide(std::int64_t longest, const std::optional<std::int64_t>& steps_per_epoch);

  /// The dataset's global batches are for `all` workers, of which `present` are there
  /// (GlobalBatch::follows_world). Throws ConfigurationError unless all workers share each batch.
  void resize_batches(const AnyDataset& train, const FitOptions& options, int present, int all);
};

/// Throws DataError when the dataset does not fit the model: by the extents of its samples, where a
/// flat sample of the same size and extents of 1 do not matter, and by the numbers of its target
/// values and weights.
void check_sizes(std::string_view where, const AnyDataset& dataset, const DataSizes& sizes);
/// The first of these checks. `size`: the numbers of a sample; `input`: the extents of the Input;
/// `targets`: the numbers of a target, for the advice.
void check_sample_shape(std::string_view where, std::span<const std::size_t> shape,
                        std::size_t size, std::span<const std::size_t> input,
                        std::size_t targets = 0);

/// Throws ConfigurationError when `steps` is given and below 1, or missing where the data repeat
/// forever.
void check_steps(std::string_view where, std::string_view option, const AnyDataset& dataset,
                 const std::optional<std::int64_t>& steps);

/// The plan of the worker at `place`; if the steps may differ, it must still be decided. Throws
/// ConfigurationError or DataError before any work.
[[nodiscard]] FitPlan plan_fit(const AnyDataset& train, const FitOptions& options,
                               const DataSizes& sizes, const DistributionContext& place);

/// Throws on all ranks when the data end before the saved place, where all workers share each batch
/// and batches have the saved size.
void check_place(const FitPlan& plan, const FitOptions& options, const TrainingPosition& at);

/// A warning where training and validation take parts of one source behind a shuffle that draws
/// another order for each pass, so that samples of one get into the other; else empty. Reads at
/// most 32 samples.
[[nodiscard]] std::string mixed_parts(const AnyDataset& train, const AnyDataset& validation);

/// Checks the arguments of evaluate or predict.
void check_pass(std::string_view where, const WorkerData& data, const DataSizes& sizes,
                const std::optional<std::int64_t>& steps);

/// What the workers must have in common for one evaluate or predict, a line for each thing.
[[nodiscard]] std::string pass_signature(const WorkerData& data,
                                         const std::optional<std::int64_t>& steps);

/// The options that the workers must have in common for one fit, a line for each.
[[nodiscard]] std::string fit_signature(const FitOptions& options);

/// The cardinality of the longest pass of all ranks: infinite where one is, else unknown where one
/// is.
template <Collective C>
[[nodiscard]] std::int64_t longest_pass(C& collective, std::int64_t mine) {
  constexpr std::int64_t without_end = std::numeric_limits<std::int64_t>::max();
  std::int64_t length = mine == infinite_cardinality  ? without_end
                        : mine == unknown_cardinality ? without_end - 1
                                                      : mine;
  collective.all_reduce(std::span(&length, 1), ReduceOp::max);
  return length == without_end       ? infinite_cardinality
         : length == without_end - 1 ? unknown_cardinality
                                     : length;
}

/// Throws ConfigurationError unless it is finite and at least 0.
void check_learning_rate(double learning_rate, bool has_schedule);

/// The weights of the classes 0, 1, ... up to the last that has one. Throws ConfigurationError for
/// a class below 0 or above 1,000,000 or listed twice, and for a weight that is negative or not
/// finite.
[[nodiscard]] std::vector<double> class_weight_list(
    std::span<const std::pair<int, double>> class_weight);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/fit_plan.ipp"
#endif
