// Cross-entropy of yes-or-no answers with less weight for the easy ones.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a row of w (1 - t)^gamma c: c is the cross-entropy of the smoothed
/// target s = y (1 - label_smoothing) + label_smoothing / 2 and the probability p, t = s p + (1 -
/// s) (1 - p) is how right p is, and w = s alpha + (1 - s) (1 - alpha) with apply_class_balancing,
/// else 1. In c, p is clipped to [1e-7, 1 - 1e-7], also where it comes from a logit, as in Keras;
/// the gradient through a clipped p is 0. (T. Lin and others, Focal Loss for Dense Object
/// Detection, 2017.)
struct BinaryFocalCrossentropy {
  bool apply_class_balancing = false;
  double alpha = 0.25;         ///< weight of the answer 1, in [0, 1]; the answer 0 has 1 - alpha
  double gamma = 2;            ///< at least 0; with 0, BinaryCrossentropy
  bool from_logits = false;    ///< true: the model ends without sigmoid
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "binary_focal_crossentropy";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

 private:
  [[nodiscard]] detail::LossTerm of_probability(double p, double target) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/binary_focal_crossentropy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(BinaryFocalCrossentropy);
}  // namespace lockstep::inline LOCKSTEP_ABI
