#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/model/fit_plan.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline void require_at_least(std::string_view where, std::string_view option, std::int64_t least, std::int64_t value) {
  if (value < least)
    throw ConfigurationError(concat({where, ": ", option, " must be at least ", least, ", got ", value}));
}

LOCKSTEP_INLINE void check_sizes(std::string_view where, const AnyDataset& dataset, const DataSizes& sizes) {
  if (!dataset) throw ConfigurationError(concat({where, ": this AnyDataset holds no dataset"}));
  std::size_t input = 1;
  for (const std::size_t extent : sizes.input) input *= extent;
  if (dataset.sample_size() != input)
    throw DataError(concat({where, ": the model's Input is ", shape_text(sizes.input), ", that is ", input,
                            " values per sample; the dataset has ", dataset.sample_size()}));
  if (sizes.targets > 0 && dataset.target_size() != sizes.targets)
    throw DataError(concat({where, ": the loss expects ", sizes.targets, " target values per sample, the dataset has ",
                            dataset.target_size()}));
}

LOCKSTEP_INLINE void check_steps(std::string_view where, std::string_view option, const AnyDataset& dataset,
                                 const std::optional<std::int64_t>& steps) {
  if (steps)
    require_at_least(where, option, 1, *steps);
  else if (dataset.cardinality() == infinite_cardinality)
    throw ConfigurationError(concat({where, ": the data repeat forever: give .", option}));
}

LOCKSTEP_INLINE FitPlan plan_fit(const AnyDataset& train, const FitOptions& options, const DataSizes& sizes,
                                 int num_workers) {
  require_at_least("fit", "epochs", 1, options.epochs);
  require_at_least("fit", "initial_epoch", 0, options.initial_epoch);
  check_sizes("fit", train, sizes);
  check_steps("fit", "steps_per_epoch", train, options.steps_per_epoch);
  std::int64_t batches = train.cardinality();
  // Every worker then goes through all of a batch, a part of it in each step.
  if (batches > 0 && train.auto_shard_policy() == AutoShardPolicy::off) batches *= num_workers;
  if (batches == 0) throw DataError("fit: the training data is empty");
  if (options.validation_data) {
    check_sizes("fit: validation_data", options.validation_data, sizes);
    check_steps("fit: validation_data", "validation_steps", options.validation_data, options.validation_steps);
    if (options.validation_data.cardinality() == 0) throw DataError("fit: validation_data is empty");
  }
  // As in Keras: an explicit number of steps goes on with the same iterator, unless it is one whole pass.
  FitPlan plan{.new_pass_each_epoch = !options.steps_per_epoch || *options.steps_per_epoch == batches,
               .target = options.steps_per_epoch};
  if (!plan.target && batches > 0) plan.target = batches;
  return plan;
}

LOCKSTEP_INLINE std::string fit_signature(const FitOptions& options) {
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? concat({*value}) : std::string("until the data ends");
  };
  return concat({"epochs: ", options.epochs, "\ninitial_epoch: ", options.initial_epoch, "\nsteps_per_epoch: ",
                 number(options.steps_per_epoch), "\nvalidation: ", options.validation_data ? "yes" : "no",
                 "\nvalidation_steps: ", number(options.validation_steps),
                 "\nvalidation_freq: ", options.validation_freq.description(),
                 "\nstop_on_non_finite: ", options.stop_on_non_finite ? "yes" : "no"});
}

LOCKSTEP_INLINE std::int64_t array_batch_size(std::string_view where, const std::optional<std::int64_t>& wanted) {
  if (wanted) require_at_least(where, "batch_size", 1, *wanted);
  return wanted.value_or(32);
}

LOCKSTEP_INLINE void refuse_batch_size(std::string_view where, const std::optional<std::int64_t>& batch_size) {
  if (batch_size)
    throw ConfigurationError(concat({where, ": batch_size is for plain arrays; this dataset has batches of its own"}));
}

LOCKSTEP_INLINE std::int64_t training_samples(std::int64_t size, double validation_split) {
  if (!(validation_split >= 0 && validation_split < 1))
    throw ConfigurationError(concat({"fit: validation_split must be in [0, 1), got ", validation_split}));
  const auto train = static_cast<std::int64_t>(static_cast<double>(size) * (1.0 - validation_split));
  if (validation_split > 0 && (train == 0 || train == size))
    throw ConfigurationError(concat({"fit: with validation_split ", validation_split, " one of the parts of ", size,
                                     " samples is empty: give more samples, or another split"}));
  return train;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
