// Plain arrays as the datasets of fit, evaluate and predict.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/training/fit_options.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a Tensor can be made of.
template <class X>
concept Array = requires(const X& x) { Tensor(x); };
template <class... Xs>
concept Arrays = (Array<Xs> && ...);

/// The rows of x, and of y as their targets where it is given, in order. Throws ConfigurationError
/// when the batch size is below 1, and DataError when the numbers of rows differ.
template <class... Arrays>
[[nodiscard]] AnyDataset array_data(std::string_view where,
                                    const std::optional<std::int64_t>& batch_size,
                                    const Arrays&... x_and_y) {
  const std::int64_t batch = array_batch_size(where, batch_size);
  return from_tensor_slices(x_and_y...).batch(batch);
}

/// The rows of x and y, with weights unless there are none.
template <class X, class Y>
[[nodiscard]] auto weighted_slices(const X& x, const Y& y, const Tensor<float>& weights) {
  return weights.rows() > 0 ? from_tensor_slices(x, y, weights) : from_tensor_slices(x, y);
}

/// All rows as one batch. Throws DataError when there are none, or the numbers of rows differ.
template <class... Arrays>
[[nodiscard]] AnyDataset one_batch(std::string_view where, const Arrays&... x_and_y) {
  const auto samples = from_tensor_slices(x_and_y...);
  if (samples.cardinality() == 0)
    throw DataError(concat({where, ": the batch has no rows; give at least one"}));
  return samples.batch(samples.cardinality());
}

/// What evaluate goes through.
template <class X, class Y>
[[nodiscard]] AnyDataset evaluation_data(const X& x, const Y& y, const EvaluateOptions& options) {
  const std::int64_t batch = array_batch_size("evaluate", options.batch_size);
  return weighted_slices(x, y, options.sample_weight).batch(batch);
}

/// What fit trains on. Without validation_data, the share validation_split of the samples, from
/// their end, becomes it.
template <class X, class Y>
[[nodiscard]] AnyDataset training_data(const X& x, const Y& y, FitOptions& options) {
  const std::int64_t batch = array_batch_size("fit", options.batch_size);
  const auto samples = weighted_slices(x, y, options.sample_weight);
  const std::int64_t size = samples.cardinality();
  const std::int64_t train =
      options.validation_data ? size : training_samples(size, options.validation_split);
  // One type of pipeline for both, which is quicker to compile; a buffer of one sample shuffles
  // nothing. Keras, too, takes the last samples for validation, before it shuffles.
  const auto part = [&](std::int64_t begin, std::int64_t end, std::int64_t buffer,
                        std::int64_t batch_size) {
    return AnyDataset(samples.skip(begin).take(end - begin).shuffle(buffer).batch(batch_size));
  };
  if (train < size) {
    const auto wanted = std::exchange(options.validation_batch_size, std::nullopt);
    options.validation_data =
        part(train, size, 1, wanted ? array_batch_size("fit: validation", wanted) : batch);
  }
  return part(0, train, options.shuffle && train > 1 ? train : 1, batch);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
