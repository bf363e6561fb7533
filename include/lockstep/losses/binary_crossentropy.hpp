// Cross-entropy of yes-or-no answers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Mean over the outputs of a sample of the cross-entropy of a target y in [0, 1] and a score, in
/// nats; Keras's formulas. Smoothed targets are s = y (1 - label_smoothing) + label_smoothing / 2.
///
///   from logits z:         max(z, 0) - z s + log(1 + exp(-|z|))
///   from probabilities p:  -s log q - (1 - s) log(1 - q),   q = p clipped to [1e-7, 1 - 1e-7]
///
/// The gradient through a clipped q is 0.
struct BinaryCrossentropy {
  bool from_logits = false;    ///< true: the model ends without sigmoid
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "binary_crossentropy";
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
  static constexpr double lowest = 1e-7;

  template <class T>
  static void check(TensorView<const T> targets);

  [[nodiscard]] double smoothed(double target) const;

  [[nodiscard]] double cross_entropy(double score, double target) const;

  // Of output `f`.
  template <class T>
  void differentiate(TensorView<const T> predictions, TensorView<const T> targets,
                     TensorView<T> gradient, std::size_t f) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/binary_crossentropy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(BinaryCrossentropy);
}  // namespace lockstep::inline LOCKSTEP_ABI
