// Share of right answers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of samples that are classified rightly, in [0, 1]. What is right depends on the
/// widths, as when Keras is given the name "accuracy":
///
///   outputs  targets
///   1        1        binary: the output is above 0.5 exactly when the target is 1 (a logit, too,
///                     is compared with 0.5)
///   n > 1    1        sparse categorical: the largest output is that of the target, a class label
///   n > 1    n        categorical: the largest output is where the largest target is
///
/// Of equal outputs the first counts as the largest. Other widths throw DataError.
struct Accuracy {
  static constexpr std::string_view name = "accuracy";
  static constexpr std::size_t state_size = 2;  // right answers, samples

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;

 private:
  static constexpr std::size_t lanes = batch_multiple;

  template <class T>
  static void find_largest(TensorView<const T> values, std::size_t row, T (&index)[lanes]);
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/accuracy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(Accuracy);
}  // namespace lockstep::inline LOCKSTEP_ABI
