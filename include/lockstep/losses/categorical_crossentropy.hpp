// Cross-entropy between distributions over classes and predictions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Cross-entropy for targets y that are distributions over n classes (one-hot vectors, as a rule)
/// and a flat output of n scores. In nats. Smoothed targets are s = y (1 - label_smoothing) +
/// label_smoothing / n.
///
///   from logits z:         sum_i s_i (log(sum_j exp z_j) - z_i)
///   from probabilities p:  -sum_i s_i log q_i,   q = p / sum_j p_j, clipped to [1e-7, 1 - 1e-7]
///
/// These are Keras 2's formulas. No target is checked; the gradient is that of the formula even
/// where y does not sum to 1, and is 0 through a clipped q_i. For class labels use
/// SparseCategoricalCrossentropy.
struct CategoricalCrossentropy {
  bool from_logits = false;    ///< true: the model ends without softmax
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "categorical_crossentropy";
  static constexpr std::string_view target_advice =
      "class labels are for SparseCategoricalCrossentropy";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  /// See Loss; `gradient` must not overlap `predictions`.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

 private:
  double smoothed(double target, std::size_t classes) const;

  // `gradient` holds softmax.
  template <class T>
  double logits_row(TensorView<const T> logits, TensorView<const T> targets, TensorView<T> gradient,
                    std::size_t row, T largest, T exponentials) const;

  template <class T>
  double probabilities_row(TensorView<const T> probabilities, TensorView<const T> targets,
                           TensorView<T> gradient, std::size_t row) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/categorical_crossentropy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(CategoricalCrossentropy);
}  // namespace lockstep::inline LOCKSTEP_ABI
