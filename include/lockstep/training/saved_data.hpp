// What a saved training says of its data, and how the data of a program that resumes it differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/training/fit_plan.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is known of a fit's training data; 0 or empty for what is not.
struct SavedData {
  std::int64_t samples = 0;   ///< in the source
  std::int64_t checksum = 0;  ///< of some of them
  std::int64_t epoch_steps = 0;
  std::int64_t batch = 0;  ///< samples in a global batch; saved elsewhere (see TrainingPosition)
  std::string pipeline = {};
  std::vector<double> class_weight = {};

  /// Reads at most 16 samples, and none where each worker has data of its own.
  [[nodiscard]] static SavedData of(const AnyDataset& train, const FitPlan& plan) {
    SavedData data{.class_weight = plan.class_weight};
    if (plan.steps_may_differ) return data;
    PipelineDescription description;
    train.describe(description);
    data.batch = description.batch_size;
    data.pipeline = std::move(description.text);
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
    saved.pipeline = pipeline;
    saved.class_weight = class_weight;
  }
};

/// A pipeline's description without the sizes of its batches.
[[nodiscard]] inline std::string without_batch_sizes(std::string text) {
  constexpr std::string_view stage = "batch(";
  for (std::size_t at = 0; (at = text.find(stage, at)) != std::string::npos;) {
    at += stage.size();
    text.erase(at, text.find_first_not_of("0123456789", at) - at);
  }
  return text;
}

/// How a program differs from a saved training.
struct SavedDifferences {
  std::string text{};            ///< "22 samples of training data (this program has 40), ..."
  bool has_other_order = false;  ///< a place in the saved data is no place in the program's
};

/// `seed`: the program's, if it asks for one.
[[nodiscard]] inline SavedDifferences saved_differences(const TrainingState& saved,
                                                        const SavedData& mine,
                                                        const std::optional<std::uint64_t>& seed) {
  SavedDifferences found;
  const auto add = [&](TextPiece theirs, std::string_view what, TextPiece ours) {
    found.text += concat({found.text.empty() ? "" : ", ", theirs.view(), what,
                          " (this program has ", ours.view(), ")"});
  };
  const auto hex = [](std::int64_t checksum) {
    return hex_text(static_cast<std::uint64_t>(checksum), 8);
  };
  const auto differ = [](std::int64_t a, std::int64_t b) { return a != 0 && b != 0 && a != b; };
  if (seed && saved.seed != *seed) add(concat({"the seed ", saved.seed}), "", *seed);
  const bool has_other_size = differ(saved.samples, mine.samples);
  const bool has_other_samples = differ(saved.samples_checksum, mine.checksum);
  if (has_other_size)
    add(saved.samples, " samples of training data", mine.samples);
  else if (has_other_samples)
    add(concat({"training data with the checksum ", hex(saved.samples_checksum)}), "",
        hex(mine.checksum));
  // Another batch size makes another number of steps, and has a message of its own.
  const bool has_other_batch = differ(saved.global_batch, mine.batch);
  if (differ(saved.epoch_steps, mine.epoch_steps) && !has_other_batch)
    add(saved.epoch_steps, " steps an epoch", mine.epoch_steps);
  const bool are_known = !saved.pipeline.empty() && !mine.pipeline.empty();
  const bool has_other_pipeline =
      are_known && without_batch_sizes(saved.pipeline) != without_batch_sizes(mine.pipeline);
  if (has_other_pipeline)
    add(concat({"the pipeline ", in_quotes(saved.pipeline)}), "", in_quotes(mine.pipeline));
  const auto list = [](std::span<const double> weights) {
    std::string text;
    for (const double weight : weights) text += concat({text.empty() ? "" : ", ", weight});
    return text.empty() ? std::string("none") : text;
  };
  if (are_known && saved.class_weight != mine.class_weight)
    add(concat({"the class weights ", list(saved.class_weight)}), "", list(mine.class_weight));
  found.has_other_order = has_other_size || has_other_samples || has_other_pipeline;
  return found;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
