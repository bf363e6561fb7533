// Share of right yes-or-no answers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of outputs of all samples that are above the threshold exactly when their target is 1;
/// for logits a threshold of 0 is that of probability 0.5.
struct BinaryAccuracy {
  double threshold = 0.5;

  std::string_view name = "binary_accuracy";

  static constexpr std::size_t state_size = 2;  // right answers, answers

  [[nodiscard]] std::string description() const;

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/binary_accuracy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(BinaryAccuracy);
}  // namespace lockstep::inline LOCKSTEP_ABI
