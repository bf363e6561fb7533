// Overlap of predicted and right classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Intersection over union: hits / (hits + wrong alarms + misses) of each class, the mean over
/// those that occur or are predicted. Classes are labels, or places of the largest of several
/// outputs or targets (Keras's sparse_y_pred and sparse_y_true are taken from the widths). Numbers
/// that are no class do not count.
struct MeanIoU {
  std::size_t num_classes = 0;           ///< 0: the number of outputs
  std::optional<int> ignore_class = {};  ///< rows with this class, which may be none, do not count
  std::string_view name = "mean_io_u";

  /// Counts of (class, predicted class).
  [[nodiscard]] std::size_t state_size(std::size_t outputs) const;

  [[nodiscard]] std::string description() const;

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;

 private:
  static std::size_t side_of(std::span<const double> state);
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/mean_iou.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(MeanIoU);
}  // namespace lockstep::inline LOCKSTEP_ABI
