// Options of fit, evaluate and predict, with Keras's names, defaults and order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// After which epochs to validate: every n-th (`{2}` or 2: epochs 2, 4, ... counted from 1), or a
/// list (`{{1, 5, 10}}`).
class ValidationFrequency {
 public:
  ValidationFrequency(int every = 1);
  ValidationFrequency(std::vector<int> epochs) : every_(0), epochs_(std::move(epochs)) {}

  /// `epoch` counts from 0.
  [[nodiscard]] bool due(int epoch) const noexcept;

  /// "2" for every second epoch, "[1, 5, 10]" for a list.
  [[nodiscard]] std::string description() const;

 private:
  int every_;
  std::vector<int> epochs_;
};

/// How fit trains. batch_size, validation_split, shuffle and sample_weight are for plain arrays: a
/// dataset has its own.
struct FitOptions {
  std::optional<std::int64_t> batch_size =
      std::nullopt;  ///< samples in a global batch of plain arrays; default 32
  int epochs = 1;    ///< how many; with initial_epoch, where to stop
  int verbose = 1;   ///< 0 silent, 1 progress bar, 2 one line per epoch; the chief alone prints
  double validation_split = 0;      ///< share of the arrays, from their end, to validate on
  AnyDataset validation_data = {};  ///< evaluated after each epoch
  bool shuffle = true;              ///< shuffle plain arrays, each epoch anew
  /// Factors of the losses of classes in training: `{{0, 1.0}, {1, 5.0}}`; others have 1. The class
  /// is the target, rounded, or the place of the largest of several. Not for validation. (With
  /// weights of the samples, both are multiplied, as in Keras 2; Keras 3 takes only one of them.)
  std::vector<std::pair<int, double>> class_weight = {};
  /// For plain arrays: the weight of each sample, or [samples x positions] for the tokens of a
  /// Sequence. A dataset has its own weights: from_tensor_slices(x, y, weights). See there.
  Tensor<float> sample_weight = {};
  int initial_epoch = 0;                                       ///< index of the first epoch
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;  ///< default: until the data ends
  std::optional<std::int64_t> validation_steps =
      std::nullopt;  ///< default: until validation_data ends
  /// Batch size for the part that validation_split takes; default: batch_size.
  std::optional<std::int64_t> validation_batch_size = std::nullopt;
  ValidationFrequency validation_freq = 1;
  /// When a loss is infinite or NaN on any replica, fit throws on every worker, and the parameters
  /// stay as they were before that step.
  bool stop_on_non_finite = false;
  /// At the end of each epoch, and before each save of BackupAndRestore and ModelCheckpoint, all
  /// ranks compare the checksums of their parameters, optimizer slots, untrained state, learning
  /// rate and number of updates. Where they differ, fit throws ReplicasDiffer (exit code 138) on
  /// every worker, naming the ranks, and nothing is saved. Each comparison costs a pass over these
  /// numbers.
  bool verify_replicas = true;
  /// Where to write what the time was spent on, as a Chrome trace ("trace.json"; other workers than
  /// the chief's write "trace.worker1.json" and so on); after each epoch the chief prints it as a
  /// table. Default: not measured. A path that cannot be written to ends fit with an Error before
  /// any step. (Updates during backward count as the optimizer's time.)
  std::string profile = {};
};

struct EvaluateOptions {
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< plain arrays; default 32
  int verbose = 1;  ///< 0 silent, 1 progress bar, 2 one line; the chief alone prints
  Tensor<float> sample_weight = {};                  ///< of plain arrays; see FitOptions
  std::optional<std::int64_t> steps = std::nullopt;  ///< default: until the data ends
};

struct PredictOptions {
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< plain arrays; default 32
  std::optional<std::int64_t> steps = std::nullopt;       ///< default: until the data ends
};

struct AdaptOptions {
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< plain arrays; default 32
  std::optional<std::int64_t> steps = std::nullopt;       ///< default: until the data ends
};

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The batch size of plain arrays. Throws ConfigurationError when it is below 1.
[[nodiscard]] std::int64_t array_batch_size(std::string_view where,
                                            const std::optional<std::int64_t>& wanted);

/// Throws ConfigurationError when a batch size is given for a dataset, which has its own batches.
void refuse_batch_size(std::string_view where, const std::optional<std::int64_t>& batch_size);
/// Throws ConfigurationError when weights are given for a dataset, which has its own weights.
void refuse_sample_weight(std::string_view where, const Tensor<float>& sample_weight);

/// How many of `size` samples are for training: all but the last `validation_split` of them. Throws
/// ConfigurationError.
[[nodiscard]] std::int64_t training_samples(std::int64_t size, double validation_split);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/fit_options.ipp"
#endif
