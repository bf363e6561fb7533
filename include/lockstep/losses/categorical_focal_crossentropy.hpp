// Cross-entropy between distributions over classes with less weight for what is easy.
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

/// -alpha sum_i (1 - q_i)^gamma s_i log q_i for targets y that are distributions over n classes
/// (one-hot vectors, as a rule) and a flat output: s_i = y_i (1 - label_smoothing) +
/// label_smoothing / n, and q is the softmax of the logits, or the probabilities divided by their
/// sum, clipped to [1e-7, 1 - 1e-7]; the gradient through a clipped q_i is 0. Keras's formulas. (T.
/// Lin and others, Focal Loss for Dense Object Detection, 2017.)
struct CategoricalFocalCrossentropy {
  double alpha = 0.25;         ///< factor of all classes; class_weight weighs single ones
  double gamma = 2;            ///< at least 0; with 0, alpha times CategoricalCrossentropy
  bool from_logits = false;    ///< true: the model ends without softmax
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "categorical_focal_crossentropy";
  static constexpr std::string_view target_advice = "give one-hot targets";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

 private:
  /// Of a row: q is exp(z - largest) / sum, or p / sum.
  struct Scale {
    double largest, sum;
  };
  struct Term {
    double value, slope;  ///< by q
  };

  template <class T>
  [[nodiscard]] Scale scale_of(TensorView<const T> predictions, std::size_t row) const;
  [[nodiscard]] double share(double score, const Scale& scale) const;
  [[nodiscard]] Term term(double q, double target) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/categorical_focal_crossentropy.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(CategoricalFocalCrossentropy);
}  // namespace lockstep::inline LOCKSTEP_ABI
