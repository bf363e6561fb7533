#pragma once

#include <algorithm>
#include <cmath>
#include <exception>

#include "lockstep/core/shape.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/training/fit_plan.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline void require_at_least(std::string_view where, std::string_view option, std::int64_t least,
                             std::int64_t value) {
  if (value < least)
    throw ConfigurationError(
        concat({where, ": ", option, " must be at least ", least, ", got ", value}));
}

/// What to do about samples of this shape, with targets of `targets` numbers.
inline std::string shape_advice(std::span<const std::size_t> shape,
                                std::span<const std::size_t> input, std::size_t size,
                                std::size_t wanted, std::size_t targets) {
  // zip(a, b) of two inputs makes targets of the second.
  if (targets > 0 && (size + targets == wanted || (size > 1 && targets == size && size < wanted)))
    return "give samples of that shape, or another Input; several inputs: zip(inputs(a, b), "
           "targets)";
  if (size == 1 && shape.size() <= 1) {
    const std::string extents = shape_text(input);
    return concat(
        {"give samples of that shape; of a std::vector each number is one: write "
         "ls::Tensor<float>(values, {rows, ",
         extents.substr(1, extents.size() - 2), "})"});
  }
  if (size != wanted) return "give samples of that shape, or another Input";
  if (shape.size() == 3 && input.size() == 3 && shape[0] == input[2] && shape[1] == input[0] &&
      shape[2] == input[1])
    return "their channels come first; put them last, with images.channels_last() for a Tensor or "
           "x.transpose(0, 2, 3, 1) in NumPy";
  return "as many elements in another order; transpose the samples, or give them the Input's shape "
         "where their "
         "elements "
         "have its order";
}

/// "(28, 28)"; "(1)" for what has no extents.
inline std::string sample_text(std::span<const std::size_t> shape) {
  constexpr std::size_t one = 1;
  return shape_text(shape.empty() ? std::span(&one, 1) : shape);
}

LOCKSTEP_INLINE void check_sample_shape(std::string_view where, std::span<const std::size_t> shape,
                                        std::size_t size, std::span<const std::size_t> input,
                                        std::size_t targets) {
  if (is_same_shape(shape, input)) return;
  std::size_t wanted = 1;
  for (const std::size_t extent : input) wanted *= extent;
  throw DataError(
      concat({where, ": the model's Input is ", shape_text(input), ", the dataset's samples are ",
              sample_text(shape), ": ", shape_advice(shape, input, size, wanted, targets)}));
}

LOCKSTEP_INLINE void check_sizes(std::string_view where, const AnyDataset& dataset,
                                 const DataSizes& sizes) {
  const std::size_t weights = dataset.weight_size();
  check_sample_shape(where, dataset.sample_shape(), dataset.sample_size(), sizes.input,
                     dataset.target_size() - weights);
  if (sizes.targets > 0 && weights > 1 && weights != sizes.positions)
    throw DataError(concat(
        {where, ": there are ", weights, " sample weights for each sample; expected 1",
         sizes.positions > 1 ? concat({", or one for each of its ", sizes.positions, " positions"})
                             : std::string()}));
  const std::size_t targets = dataset.target_size() - weights;
  if (sizes.targets == 0 || targets == sizes.targets) return;
  throw DataError(concat({where, ": the loss ", sizes.loss, " expects targets of ",
                          shape_text(std::span(&sizes.targets, 1)), ", ",
                          targets == 0 ? "the dataset has no targets" : "the dataset's are of ",
                          targets == 0 ? "" : shape_text(std::span(&targets, 1)),
                          sizes.target_advice.empty() ? "" : ": ", sizes.target_advice}));
}

LOCKSTEP_INLINE void check_steps(std::string_view where, std::string_view option,
                                 const AnyDataset& dataset,
                                 const std::optional<std::int64_t>& steps) {
  if (steps)
    require_at_least(where, option, 1, *steps);
  else if (dataset.cardinality() == infinite_cardinality)
    throw ConfigurationError(concat({where, ": the data repeat forever: give .", option}));
}

LOCKSTEP_INLINE void FitPlan::decide(std::int64_t longest,
                                     const std::optional<std::int64_t>& steps_per_epoch) {
  if (longest == 0) throw DataError("fit: the training data is empty");
  // As in Keras: an explicit number of steps goes on with the same iterator, unless it is one whole
  // pass.
  new_pass_each_epoch = !steps_per_epoch || *steps_per_epoch == longest;
  target = steps_per_epoch;
  if (!target && longest > 0) target = longest;
}

LOCKSTEP_INLINE void FitPlan::resize_batches(const AnyDataset& train, const FitOptions& options,
                                             int present, int all) {
  // With any number of workers: a smaller world may have enough files where this one has not.
  const auto policy = decide_shard_policy(train.auto_shard_policy(), train.num_files(), 2).policy;
  if (policy != AutoShardPolicy::data)
    throw ConfigurationError(
        concat({"fit: ElasticOptions::global_batch is GlobalBatch::follows_world, and the workers "
                "do not share each batch of the training data (AutoShardPolicy::",
                to_string(policy), "): take AutoShardPolicy::data, or GlobalBatch::fixed"}));
  counts_samples = true;
  signature += "global batch: follows the world\n";
  if (!options.steps_per_epoch && present != all) target.reset();
}

LOCKSTEP_INLINE FitPlan plan_fit(const AnyDataset& train, const FitOptions& options,
                                 const DataSizes& sizes, const DistributionContext& place) {
  require_at_least("fit", "epochs", 1, options.epochs);
  require_at_least("fit", "initial_epoch", 0, options.initial_epoch);
  if (options.validation_batch_size)
    throw ConfigurationError(
        "fit: validation_batch_size is for validation_split of plain arrays; validation_data has "
        "its own batches");
  std::vector<double> class_weight = class_weight_list(options.class_weight);
  if (!class_weight.empty() && sizes.has_several_losses)
    throw ConfigurationError(
        "fit: class_weight is for a model with one loss, whose targets are classes: give weights "
        "of the samples");
  const WorkerData data("fit", train, place);
  check_sizes("fit", data.part(), sizes);
  check_steps("fit", "steps_per_epoch", data.part(), options.steps_per_epoch);
  FitPlan plan{.steps = data.steps(),
               .steps_may_differ = data.may_differ(),
               .class_weight = std::move(class_weight)};
  if (plan.steps == 0 && !plan.steps_may_differ)
    throw DataError("fit: the training data is empty" + data.why_empty());
  if (!plan.steps_may_differ) plan.decide(plan.steps, options.steps_per_epoch);
  plan.signature = fit_signature(options) + data.signature("training data");
  if (options.validation_data) {
    const WorkerData validation("fit: validation_data", options.validation_data, place);
    check_sizes("fit: validation_data", validation.part(), sizes);
    check_steps("fit: validation_data", "validation_steps", validation.part(),
                options.validation_steps);
    if (!validation.may_differ() && validation.steps() == 0)
      throw DataError("fit: validation_data is empty" + validation.why_empty());
    plan.signature += validation.signature("validation data");
  }
  return plan;
}

LOCKSTEP_INLINE void check_place(const FitPlan& plan, const FitOptions& options,
                                 const TrainingPosition& at) {
  const bool has_more_to_do = !at.has_ended() && at.epoch < options.epochs;
  const bool is_known = !plan.steps_may_differ && plan.steps >= 0;
  if (!has_more_to_do || !is_known || at.data_position <= plan.steps) return;
  throw ConfigurationError(concat(
      {"fit: the saved training has used ", at.data_position,
       " global batches of a pass over its data, and a pass over the data of this program has ",
       plan.steps,
       ": go on with the data of the saved training, or delete what it was restored from to train "
       "from the beginning"}));
}

LOCKSTEP_INLINE std::string mixed_parts(const AnyDataset& train, const AnyDataset& validation) {
  PipelineDescription trained, validated;
  train.describe(trained);
  validation.describe(validated);
  if (!trained.is_part_of_reshuffled || !validated.is_part_of_reshuffled) return {};
  try {
    const SourceFingerprint source = train.fingerprint(), other = validation.fingerprint();
    if (source.checked == 0 || source.samples != other.samples || source.checksum != other.checksum)
      return {};
  } catch (const std::exception&) {  // training names the sample, if it reads it
    return {};
  }
  return concat(
      {"fit: the training data (", printable(trained.text), ") and the validation_data (",
       printable(validated.text),
       ") are parts of one source behind a shuffle that draws another order for each pass: samples "
       "of one get into the other, and val_loss says nothing about new data. Take the parts before "
       "the shuffle, or let it keep its order: shuffle(n, seed, false)"});
}

LOCKSTEP_INLINE void check_pass(std::string_view where, const WorkerData& data,
                                const DataSizes& sizes, const std::optional<std::int64_t>& steps) {
  check_sizes(where, data.part(), sizes);
  check_steps(where, "steps", data.part(), steps);
}

/// A number of steps, as text.
inline std::string steps_text(const std::optional<std::int64_t>& steps) {
  return steps ? concat({*steps}) : std::string("until the data ends");
}

LOCKSTEP_INLINE std::string pass_signature(const WorkerData& data,
                                           const std::optional<std::int64_t>& steps) {
  return concat({"steps: ", steps_text(steps), "\n", data.signature("data")});
}

/// "{0: 1, 3: 2.5}".
inline std::string class_weight_text(std::span<const std::pair<int, double>> class_weight) {
  std::string text;
  for (const auto& [label, weight] : class_weight)
    text += concat({text.empty() ? "" : ", ", label, ": ", weight});
  return "{" + text + "}";
}

LOCKSTEP_INLINE std::string fit_signature(const FitOptions& options) {
  return concat({"epochs: ", options.epochs, "\ninitial_epoch: ", options.initial_epoch,
                 "\nsteps_per_epoch: ", steps_text(options.steps_per_epoch),
                 "\nvalidation: ", options.validation_data ? "yes" : "no",
                 "\nvalidation_steps: ", steps_text(options.validation_steps),
                 "\nvalidation_freq: ", options.validation_freq.description(),
                 "\nclass_weight: ", class_weight_text(options.class_weight),
                 "\nstop_on_non_finite: ", options.stop_on_non_finite ? "yes" : "no",
                 "\nverify_replicas: ", options.verify_replicas ? "yes" : "no", "\n"});
}

LOCKSTEP_INLINE void check_learning_rate(double learning_rate, bool has_schedule) {
  if (has_schedule)
    throw ConfigurationError(
        "set_learning_rate: the optimizer has a schedule, which gives the learning rate: compile "
        "with a number, or "
        "put the change into the schedule");
  if (!std::isfinite(learning_rate) || learning_rate < 0)
    throw ConfigurationError(
        concat({"set_learning_rate: the learning rate must be finite and at least 0, got ",
                learning_rate}));
}

LOCKSTEP_INLINE std::vector<double> class_weight_list(
    std::span<const std::pair<int, double>> class_weight) {
  constexpr int most = 1'000'000;
  std::vector<std::pair<int, double>> ordered(class_weight.begin(), class_weight.end());
  std::sort(ordered.begin(), ordered.end());
  std::vector<double> weights;
  for (const auto& [label, weight] : ordered) {
    if (label < 0 || label > most)
      throw ConfigurationError(
          concat({"fit: class_weight has the class ", label, "; expected one of 0 to ", most}));
    if (!(std::isfinite(weight) && weight >= 0))
      throw ConfigurationError(concat({"fit: class_weight of class ", label, " is ", weight,
                                       "; expected a finite number of at least 0"}));
    if (static_cast<std::size_t>(label) < weights.size())
      throw ConfigurationError(concat({"fit: class_weight lists the class ", label, " twice"}));
    weights.resize(static_cast<std::size_t>(label), 1.0);
    weights.push_back(weight);
  }
  return weights;
}

}}}  // namespace lockstep::detail
