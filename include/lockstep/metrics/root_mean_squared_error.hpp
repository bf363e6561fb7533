// Root of the mean squared error.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/mean_squared_error.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/mean_loss.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The root of the mean of (prediction - target)^2 over all outputs of all rows.
struct RootMeanSquaredError {
  std::string_view name = "root_mean_squared_error";

  static constexpr std::size_t state_size = 2;  // sum of the rows' means, rows

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;
  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/root_mean_squared_error.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(RootMeanSquaredError);
}  // namespace lockstep::inline LOCKSTEP_ABI
