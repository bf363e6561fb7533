// The checks of fit's options, and what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/model/fit_options.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a model takes: the shape of a sample, and how many target values the loss wants for it (0: none are read).
struct DataSizes {
  std::span<const std::size_t> input;
  std::size_t targets = 0;
};

struct FitPlan {
  bool new_pass_each_epoch = true;                    ///< else the epochs go on with the same pass over the data
  std::optional<std::int64_t> target = std::nullopt;  ///< steps of an epoch, where known
};

/// Throws DataError when the dataset does not fit the model.
void check_sizes(std::string_view where, const AnyDataset& dataset, const DataSizes& sizes);

/// Throws ConfigurationError when `steps` is given and below 1, or missing where the data repeat forever.
void check_steps(std::string_view where, std::string_view option, const AnyDataset& dataset,
                 const std::optional<std::int64_t>& steps);

/// Throws ConfigurationError or DataError before any work.
[[nodiscard]] FitPlan plan_fit(const AnyDataset& train, const FitOptions& options, const DataSizes& sizes,
                               int num_workers);

/// What the workers must have in common for one fit, a line for each thing.
[[nodiscard]] std::string fit_signature(const FitOptions& options);

/// The batch size of plain arrays. Throws ConfigurationError when it is below 1.
[[nodiscard]] std::int64_t array_batch_size(std::string_view where, const std::optional<std::int64_t>& wanted);

/// Throws ConfigurationError when a batch size is given for a dataset, which has batches of its own.
void refuse_batch_size(std::string_view where, const std::optional<std::int64_t>& batch_size);

/// How many of `size` samples are for training: all but the last `validation_split` of them. Throws ConfigurationError.
[[nodiscard]] std::int64_t training_samples(std::int64_t size, double validation_split);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/model/fit_plan.ipp"
#endif
