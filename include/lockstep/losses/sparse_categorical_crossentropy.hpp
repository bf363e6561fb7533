// Cross-entropy between class labels and predictions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

  /// Takes a part of the label's weight and gives it to all classes: -log q_i of class i is that of
  /// the label plus a difference of logits, or of logarithms.
  template <class T>
  void smooth(TensorView<const T> predictions, TensorView<const T> labels, std::span<double> losses,
              TensorView<T> gradient) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/sparse_categorical_crossentropy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(SparseCategoricalCrossentropy);
LOCKSTEP_INSTANCE(bool SparseCategoricalCrossentropy::ignore(TensorView<const float>,
                                                             std::span<float>) const);
LOCKSTEP_INSTANCE(bool SparseCategoricalCrossentropy::ignore(TensorView<const double>,
                                                             std::span<double>) const);
}  // namespace lockstep::inline LOCKSTEP_ABI
