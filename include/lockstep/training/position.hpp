// Where training goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/status_block.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A place between two steps of fit: in the epochs and in the data, with the sums of the epoch so
/// far.
struct TrainingPosition {
  std::int64_t epoch = 0;           ///< index of the epoch to go on in
  std::int64_t step = 0;            ///< steps of it that are made
  std::int64_t data_iteration = 0;  ///< number of the pass over the data
  std::int64_t data_position = 0;   ///< global batches of it that are used
  /// Samples in the global batches that data_position counts; 0: not known. 1 where these have had
  /// several sizes: then it counts samples.
  std::int64_t batch = 0;
  std::vector<double> running{};  ///< the sums, as StatusBlock::saved(); empty for none
  bool is_epoch_open = false;     ///< the epoch before this one is not completed

  /// Training has come to its end. (Sums before the first step of an epoch are those of no step, in
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

  /// The place that a snapshot has. Throws ConfigurationError when the sums are those of other
  /// metrics, and DataError when they or the place cannot come from a training.
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
