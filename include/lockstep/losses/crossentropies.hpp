// Cross-entropies: of yes-or-no answers, of distributions over classes, and of class labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
/// Mean over the outputs of a sample of the cross-entropy of a target y in [0, 1] and a score, in
/// nats; Keras's formulas. Smoothed targets are s = y (1 - label_smoothing) + label_smoothing / 2.
///
///   from logits z:         max(z, 0) - z s + log(1 + exp(-|z|))
///   from probabilities p:  -s log q - (1 - s) log(1 - q),   q = p clipped to [1e-7, 1 - 1e-7]
///
/// The gradient through a clipped q is 0.
/// Use: `BinaryCrossentropy{.from_logits = true}`.
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

/// Cross-entropy for targets y that are distributions over n classes (one-hot vectors, as a rule)
/// and a flat output of n scores. In nats. Smoothed targets are s = y (1 - label_smoothing) +
/// label_smoothing / n.
///
///   from logits z:         sum_i s_i (log(sum_j exp z_j) - z_i)
///   from probabilities p:  -sum_i s_i log q_i,   q = p / sum_j p_j, clipped to [1e-7, 1 - 1e-7]
///
/// These are Keras 2's formulas. Targets are not checked: the gradient follows the formula even
/// where y does not sum to 1, and is 0 through a clipped q_i. For class labels use
/// SparseCategoricalCrossentropy.
/// Use: `CategoricalCrossentropy{.from_logits = true, .label_smoothing = 0.1}`.
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

/// Cross-entropy for targets that are class labels 0, 1, ..., n - 1 (one for each sample, a whole
/// number stored as T) and a flat output of n scores. In nats.
///
///   from logits z:         log(sum_j exp z_j) - z_label,
///                          gradient softmax(z)_i - [i = label]
///   from probabilities p:  log(sum_j c_j) - log c_label, c = p clipped to [1e-7, 1 - 1e-7],
///                          gradient 1 / sum_j c_j - [i = label] / c_i; 0 where p_i was clipped
///
/// With label_smoothing s, the cross-entropy of a row is (1 - s) times that of its label and s / n
/// times the sum of those of all classes: what CategoricalCrossentropy gives for one-hot targets.
///
/// These are Keras 2's formulas; it too divides the clipped probabilities by their sum. Prefer
/// logits: they lose no digits. A NaN in a prediction makes the loss NaN. A label that is no class
/// throws BadTarget before anything is written.
/// Use: `SparseCategoricalCrossentropy{.from_logits = true}`.
struct SparseCategoricalCrossentropy {
  bool from_logits = false;  ///< true: the model ends without softmax
  std::optional<int> ignore_class =
      {};                      ///< rows with this label, which may be no class, do not count
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "sparse_categorical_crossentropy";
  static constexpr std::string_view target_advice =
      "one-hot targets are for CategoricalCrossentropy";
  template <class Out>
  static constexpr std::size_t target_size = detail::one_label<Out>();

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  /// See Loss; `gradient` must not overlap `predictions`.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

  template <class T>
  [[nodiscard]] bool ignore(TensorView<const T> labels, std::span<T> weights) const;

 private:
  static constexpr std::size_t lanes = batch_multiple;

  /// (An ignored label may be any number: what is computed for it does not count.)
  template <class T>
  static std::size_t class_of(T label, std::size_t classes);

  template <class T>
  static void logits_block(TensorView<const T> logits, TensorView<const T> labels,
                           std::span<double> losses, TensorView<T> gradient, std::size_t first);

  template <class T>
  static void probabilities_block(TensorView<const T> probabilities, TensorView<const T> labels,
                                  std::span<double> losses, TensorView<T> gradient,
                                  std::size_t first);

  /// Spreads label_smoothing of the label's weight over all classes: -log q_i of class i equals the
  /// label's plus a difference of logits, or of logarithms.
  template <class T>
  void smooth(TensorView<const T> predictions, TensorView<const T> labels, std::span<double> losses,
              TensorView<T> gradient) const;
};

/// Sum over the classes of y log(y / p), for distributions y (targets) and p (predictions, a flat
/// output). In nats. Both are clipped to [1e-7, 1], as in Keras; the gradient through a clipped p
/// is 0.
/// Use: `KLDivergence{}`.
struct KLDivergence {
  static constexpr std::string_view name = "kl_divergence";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const { return std::string(name); }

  [[nodiscard]] static constexpr bool has_probabilities() { return true; }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

template <class T>
void KLDivergence::compute(TensorView<const T> predictions, TensorView<const T> targets,
                           std::span<double> losses, TensorView<T> gradient) const {
  const auto formula = [](double p, double y) {
    constexpr double lowest = 1e-7;
    const double target = std::clamp(y, lowest, 1.0);
    const double slope = p >= lowest && p <= 1 ? -target / p : 0.0;
    return detail::LossTerm{target * std::log(target / std::clamp(p, lowest, 1.0)), slope};
  };
  detail::sum_over_outputs(predictions, targets, losses, gradient, 1.0, formula);
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/losses/crossentropies.ipp"
#endif
