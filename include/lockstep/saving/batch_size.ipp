#pragma once

#include <chrono>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/batch_size.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void check(const FindBatchSizeOptions& options) {
  const auto refuse = [](std::string_view option, std::string_view range, const auto& got) {
    throw ConfigurationError(
        concat({"find_batch_size: ", option, " must be ", range, ", got ", got}));
  };
  if (options.smallest < 1) refuse("smallest", "at least 1", options.smallest);
  if (options.largest && *options.largest < options.smallest)
    refuse("largest", "at least smallest", *options.largest);
  if (options.steps < 1) refuse("steps", "at least 1", options.steps);
  if (options.warm_up < 0) refuse("warm_up", "at least 0", options.warm_up);
  if (!(options.tolerance >= 0 && options.tolerance < 1))
    refuse("tolerance", "in [0, 1)", options.tolerance);
}

LOCKSTEP_INLINE std::vector<std::int64_t> batches_to_try(const FindBatchSizeOptions& options,
                                                         std::int64_t fits, std::int64_t samples,
                                                         int ranks) {
  const auto whole = [&](std::int64_t batch) { return batch / ranks * ranks; };
  if (fits < ranks)
    throw ConfigurationError(concat({"find_batch_size: not even one sample for each of ", ranks,
                                     " ranks fits into ", options.memory,
                                     " bytes: give it more .memory, or make the model smaller "
                                     "(budget says what takes it)"}));
  std::int64_t largest = fits;
  if (options.largest) largest = std::min(largest, *options.largest);
  if (samples >= 0) largest = std::min(largest, samples);
  largest = whole(largest);
  if (largest < ranks)
    throw ConfigurationError(
        concat({"find_batch_size: a batch has at least a sample for each of ", ranks,
                " ranks, and .largest or the data allow ",
                samples >= 0 && samples < ranks ? samples : options.largest.value_or(samples)}));
  std::int64_t batch = std::min(whole(options.smallest + ranks - 1), largest);
  std::vector<std::int64_t> batches;
  for (; batch < largest; batch *= 2) batches.push_back(batch);
  batches.push_back(largest);
  return batches;
}

LOCKSTEP_INLINE bool has_passed_the_best(const std::vector<BatchSizes::Trial>& trials) {
  double best = 0;
  int slower = 0;
  for (const BatchSizes::Trial& trial : trials) {
    slower = trial.samples_per_second < best ? slower + 1 : 0;
    best = std::max(best, trial.samples_per_second);
  }
  return slower >= 2;
}

LOCKSTEP_INLINE std::int64_t fast_enough(const std::vector<BatchSizes::Trial>& trials,
                                         double tolerance) {
  double best = 0;
  for (const BatchSizes::Trial& trial : trials) best = std::max(best, trial.samples_per_second);
  for (const BatchSizes::Trial& trial : trials)
    if (trial.samples_per_second >= (1 - tolerance) * best) return trial.batch;
  return trials.back().batch;  // (where a clock stood still)
}

LOCKSTEP_INLINE void log_trial(const BatchSizes::Trial& trial) {
  log_line(
      concat({"find_batch_size: batches of ", trial.batch, ": ",
              number_text(trial.samples_per_second, NumberForm::general, 4), " samples a second, ",
              number_text(static_cast<double>(trial.memory) / static_cast<double>(MiB),
                          NumberForm::general, 4),
              " MiB"}));
}
LOCKSTEP_INLINE void log_suggestion(const BatchSizes& found) {
  log_line(concat({"find_batch_size: begin with batches of ", found.suggestion,
                   "; the largest that fits has ", found.largest_fits, " samples"}));
}

LOCKSTEP_INLINE double StepClock::median() const {
  std::vector<double> steps;
  for (std::size_t i = 1; i < times.size(); ++i) steps.push_back(times[i] - times[i - 1]);
  if (steps.empty()) return 0;
  std::sort(steps.begin(), steps.end());
  const std::size_t middle = steps.size() / 2;
  return steps.size() % 2 == 1 ? steps[middle] : (steps[middle - 1] + steps[middle]) / 2;
}

LOCKSTEP_INLINE double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}}}  // namespace lockstep::detail
