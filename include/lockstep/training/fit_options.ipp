#pragma once

#include "lockstep/training/fit_options.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE ValidationFrequency::ValidationFrequency(int every) : every_(every) {
  if (every < 1)
    throw ConfigurationError(concat({"fit: validation_freq must be at least 1, got ", every}));
}

LOCKSTEP_INLINE bool ValidationFrequency::due(int epoch) const noexcept {
  if (every_ > 0) return (epoch + 1) % every_ == 0;
  for (const int listed : epochs_)
    if (listed == epoch + 1) return true;
  return false;
}

LOCKSTEP_INLINE std::string ValidationFrequency::description() const {
  if (every_ > 0) return concat({every_});
  std::string text;
  for (const int listed : epochs_) text += concat({text.empty() ? "" : ", ", listed});
  return "[" + text + "]";
}

}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::int64_t array_batch_size(std::string_view where,
                                              const std::optional<std::int64_t>& wanted) {
  if (wanted && *wanted < 1)
    throw ConfigurationError(concat({where, ": batch_size must be at least 1, got ", *wanted}));
  return wanted.value_or(32);
}

LOCKSTEP_INLINE void refuse_batch_size(std::string_view where,
                                       const std::optional<std::int64_t>& batch_size) {
  if (batch_size)
    throw ConfigurationError(
        concat({where, ": batch_size is for plain arrays; this dataset has its own batches"}));
}

LOCKSTEP_INLINE void refuse_sample_weight(std::string_view where,
                                          const Tensor<float>& sample_weight) {
  if (sample_weight.rows() > 0)
    throw ConfigurationError(
        concat({where,
                ": sample_weight is for plain arrays; a dataset has its own weights: "
                "from_tensor_slices(x, y, weights)"}));
}

LOCKSTEP_INLINE std::int64_t training_samples(std::int64_t size, double validation_split) {
  if (!(validation_split >= 0 && validation_split < 1))
    throw ConfigurationError(
        concat({"fit: validation_split must be in [0, 1), got ", validation_split}));
  const auto train =
      static_cast<std::int64_t>(static_cast<double>(size) * (1.0 - validation_split));
  if (validation_split > 0 && (train == 0 || train == size))
    throw ConfigurationError(
        concat({"fit: with validation_split ", validation_split, " one of the parts of ", size,
                " samples is empty: give more samples, or another split"}));
  return train;
}

}}}  // namespace lockstep::detail
