// Share of samples whose class is among the best k, for class labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/top_k_categorical_accuracy.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of rows whose class label has one of the k highest outputs. Ties at the k-th place
/// count.
struct SparseTopKCategoricalAccuracy {
  int k = 5;  ///< at least 1
  std::string_view name = "sparse_top_k_categorical_accuracy";

  static constexpr std::size_t state_size = 2;  // right answers, samples

  [[nodiscard]] std::string description() const;
  /// Throws ConfigurationError.
  void validate() const { detail::check_top_k(name, k); }

  /// Throws DataError unless there is one target for several outputs, and for a label that is no
  /// class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/sparse_top_k_categorical_accuracy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(SparseTopKCategoricalAccuracy);
}  // namespace lockstep::inline LOCKSTEP_ABI
