// Share of samples whose class is right, for class labels.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/accuracy.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of rows whose largest output is that of the target, a class label; of equal ones the
/// first.
struct SparseCategoricalAccuracy {
  std::string_view name = "sparse_categorical_accuracy";

  static constexpr std::size_t state_size = Accuracy::state_size;

  /// Throws DataError unless there is one target for several outputs.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/sparse_categorical_accuracy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(SparseCategoricalAccuracy);
}  // namespace lockstep::inline LOCKSTEP_ABI
