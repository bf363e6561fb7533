// What a saved training says of its data, and how the data of a program that resumes it differ.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/training/fit_plan.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is known of a fit's training data; 0 for what is not.
struct SavedData {
  std::int64_t samples = 0;   ///< in the source
  std::int64_t checksum = 0;  ///< of some of them
  std::int64_t epoch_steps = 0;
  std::int64_t batch = 0;  ///< samples in a global batch; saved elsewhere (see TrainingPosition)

  /// Reads at most 16 samples, and none where each worker has data of its own.
  [[nodiscard]] static SavedData of(const AnyDataset& train, const FitPlan& plan) {
    SavedData data;
    if (plan.steps_may_differ) return data;
    PipelineDescription description;
    train.describe(description);
    data.batch = description.batch_size;
    if (!plan.counts_samples) data.epoch_steps = plan.target.value_or(0);
    try {
      const SourceFingerprint source = train.fingerprint();
      if (source.samples > 0) data.samples = source.samples;
      if (source.checked > 0) data.checksum = source.checksum;
    } catch (const std::exception&) {  // training names the sample, if it reads it
    }
    return data;
  }

  void save(TrainingState& saved) const {
    saved.samples = samples;
    saved.samples_checksum = checksum;
    saved.epoch_steps = epoch_steps;
  }
};

/// How a program with these data, and with this seed if it asks for one, differs from the saved
/// training: "22 samples of training data (this program has 40), ..."; empty if it does not.
[[nodiscard]] inline std::string saved_differences(const TrainingState& saved,
                                                   const SavedData& mine,
                                                   const std::optional<std::uint64_t>& seed) {
  std::string text;
  const auto add = [&](TextPiece theirs, std::string_view what, TextPiece ours) {
    text += concat(
        {text.empty() ? "" : ", ", theirs.view(), what, " (this program has ", ours.view(), ")"});
  };
  const auto hex = [](std::int64_t checksum) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(checksum));
    return std::string(digits);
  };
  const auto differ = [](std::int64_t a, std::int64_t b) { return a != 0 && b != 0 && a != b; };
  if (seed && saved.seed != *seed) add(concat({"the seed ", saved.seed}), "", *seed);
  if (differ(saved.samples, mine.samples))
    add(saved.samples, " samples of training data", mine.samples);
  else if (differ(saved.samples_checksum, mine.checksum))
    add(concat({"training data with the checksum ", hex(saved.samples_checksum)}), "",
        hex(mine.checksum));
  // Another batch size makes another number of steps, and has a message of its own.
  if (differ(saved.epoch_steps, mine.epoch_steps) && !differ(saved.global_batch, mine.batch))
    add(saved.epoch_steps, " steps an epoch", mine.epoch_steps);
  return text;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
