// The options of fit, evaluate and predict that are for plain arrays alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The batch size of plain arrays. Throws ConfigurationError when it is below 1.
[[nodiscard]] std::int64_t array_batch_size(std::string_view where,
                                            const std::optional<std::int64_t>& wanted);

/// Throws ConfigurationError when a batch size is given for a dataset, which has batches of its
/// own.
void refuse_batch_size(std::string_view where, const std::optional<std::int64_t>& batch_size);
/// Throws ConfigurationError when weights are given for a dataset, which has weights of its own.
void refuse_sample_weight(std::string_view where, const Tensor<float>& sample_weight);

/// How many of `size` samples are for training: all but the last `validation_split` of them. Throws
/// ConfigurationError.
[[nodiscard]] std::int64_t training_samples(std::int64_t size, double validation_split);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/array_options.ipp"
#endif
