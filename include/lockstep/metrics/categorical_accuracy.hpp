// Share of samples whose class is right, for one-hot targets.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of rows whose largest output is where the largest target is; of equal ones the first.
struct CategoricalAccuracy {
  std::string_view name = "categorical_accuracy";

  static constexpr std::size_t state_size = Accuracy::state_size;

  /// Throws DataError when the widths of predictions and targets differ, or are 1.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/categorical_accuracy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(CategoricalAccuracy);
}  // namespace lockstep::inline LOCKSTEP_ABI
