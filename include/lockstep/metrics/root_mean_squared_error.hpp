// Root of the mean squared error.
#pragma once

#include <cmath>
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
              std::span<const T> weights, std::span<double> state) const {
    MeanLoss<MeanSquaredError>{}.update(predictions, targets, weights, state);
  }
  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? std::sqrt(state[0] / state[1]) : 0.0;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
