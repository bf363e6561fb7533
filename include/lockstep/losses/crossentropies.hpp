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
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/softmax.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What a loss needs of some samples: the log of the sum of exponentials is log(sum) + largest.
template <class T>
struct SoftmaxBlock {
  static constexpr std::size_t samples = 16 * batch_multiple;  ///< at most
  alignas(64) T largest[samples];                              ///< of the sample's logits
  alignas(64) T sum[samples];                                  ///< of exp(logit - largest)
};

/// For the samples from `first` on, a multiple of batch_multiple, as many as a block takes, padding
/// included. `softmax` may be empty.
template <class T>
void softmax_block(TensorView<const T> logits, TensorView<T> softmax, std::size_t first,
                   SoftmaxBlock<T>& block) {
  alignas(64) T factors[SoftmaxBlock<T>::samples];
  kernels::dispatch(kernels::SoftmaxRows<T>{
      .features = logits.features(),
      .samples = std::min(SoftmaxBlock<T>::samples, logits.stride() - first),
      .stride = logits.stride(),
      .x = logits.data() + first,
      .y = softmax.empty() ? nullptr : softmax.data() + first,
      .largest = block.largest,
      .sum = block.sum,
      .factors = factors});
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {
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

  // Writes the gradient of output `f`.
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

/// Mean over the outputs of a row of w (1 - t)^gamma c: c is the cross-entropy of the smoothed
/// target s = y (1 - label_smoothing) + label_smoothing / 2 and the probability p, t = s p + (1 -
/// s) (1 - p) is how right p is, and w = s alpha + (1 - s) (1 - alpha) with apply_class_balancing,
/// else 1. In c, p is clipped to [1e-7, 1 - 1e-7], also where it comes from a logit, as in Keras;
/// the gradient through a clipped p is 0. (T. Lin and others, Focal Loss for Dense Object
/// Detection, 2017.)
/// Use: `BinaryFocalCrossentropy{.gamma = 2}`.
struct BinaryFocalCrossentropy {
  bool apply_class_balancing = false;
  double alpha = 0.25;         ///< weight of the answer 1, in [0, 1]; the answer 0 has 1 - alpha
  double gamma = 2;            ///< at least 0; with 0, BinaryCrossentropy
  bool from_logits = false;    ///< true: the model ends without sigmoid
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "binary_focal_crossentropy";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const {
    return describe(name, {{"apply_class_balancing", apply_class_balancing},
                           {"alpha", alpha},
                           {"gamma", gamma},
                           {"from_logits", from_logits},
                           {"label_smoothing", label_smoothing}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (!(alpha >= 0 && alpha <= 1 && gamma >= 0 && label_smoothing >= 0 && label_smoothing <= 1))
      throw ConfigurationError(
          description() + ": expected alpha and label_smoothing in [0, 1] and gamma of at least 0");
  }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

 private:
  [[nodiscard]] detail::LossTerm of_probability(double p, double target) const {
    constexpr double low = 1e-7, high = 1 - 1e-7;
    const double q = std::clamp(p, low, high);
    const double entropy = -target * std::log(q) - (1 - target) * std::log(1 - q);
    const double entropy_slope = p >= low && p <= high ? (q - target) / (q * (1 - q)) : 0.0;
    const double wrong = 1 - (target * p + (1 - target) * (1 - p));
    const double focus = std::pow(wrong, gamma);
    const double focus_slope =
        gamma > 0 && wrong > 0 ? gamma * focus / wrong * (1 - 2 * target) : 0.0;
    const double weight = apply_class_balancing ? target * alpha + (1 - target) * (1 - alpha) : 1.0;
    return {weight * focus * entropy, weight * (focus * entropy_slope + focus_slope * entropy)};
  }
};

template <class T>
void BinaryFocalCrossentropy::compute(TensorView<const T> predictions, TensorView<const T> targets,
                                      std::span<double> losses, TensorView<T> gradient) const {
  detail::mean_over_outputs(predictions, targets, losses, gradient, [this](double score, double y) {
    const double target = y * (1 - label_smoothing) + label_smoothing / 2;
    if (!from_logits) return of_probability(score, target);
    const double p = 1 / (1 + std::exp(-score));
    const detail::LossTerm term = of_probability(p, target);
    return detail::LossTerm{term.value, term.slope * p * (1 - p)};
  });
}

/// -alpha sum_i (1 - q_i)^gamma s_i log q_i for targets y that are distributions over n classes
/// (one-hot vectors, as a rule) and a flat output: s_i = y_i (1 - label_smoothing) +
/// label_smoothing / n, and q is the softmax of the logits, or the probabilities divided by their
/// sum, clipped to [1e-7, 1 - 1e-7]; the gradient through a clipped q_i is 0. Keras's formulas. (T.
/// Lin and others, Focal Loss for Dense Object Detection, 2017.)
/// Use: `CategoricalFocalCrossentropy{.alpha = 0.25}`.
struct CategoricalFocalCrossentropy {
  double alpha = 0.25;         ///< factor of all classes; class_weight weighs single ones
  double gamma = 2;            ///< at least 0; with 0, alpha times CategoricalCrossentropy
  bool from_logits = false;    ///< true: the model ends without softmax
  double label_smoothing = 0;  ///< in [0, 1]

  static constexpr std::string_view name = "categorical_focal_crossentropy";
  static constexpr std::string_view target_advice = "give one-hot targets";
  template <class Out>
  static constexpr std::size_t target_size = Out::size * detail::one_label<Out>();

  [[nodiscard]] std::string description() const {
    return describe(name, {{"alpha", alpha},
                           {"gamma", gamma},
                           {"from_logits", from_logits},
                           {"label_smoothing", label_smoothing}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (!(alpha >= 0 && gamma >= 0 && label_smoothing >= 0 && label_smoothing <= 1))
      throw ConfigurationError(
          description() + ": expected alpha and gamma of at least 0 and label_smoothing in [0, 1]");
  }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;

 private:
  /// The scale of a row: q is exp(z - largest) / sum, or p / sum.
  struct Scale {
    double largest, sum;
  };
  struct Term {
    double value, slope;  ///< by q
  };

  template <class T>
  [[nodiscard]] Scale scale_of(TensorView<const T> predictions, std::size_t row) const;
  [[nodiscard]] double share(double score, const Scale& scale) const {
    return (from_logits ? std::exp(score - scale.largest) : score) / scale.sum;
  }
  [[nodiscard]] Term term(double q, double target) const {
    constexpr double low = 1e-7, high = 1 - 1e-7;
    const double clipped = std::clamp(q, low, high), wrong = 1 - clipped;
    const double entropy = -target * std::log(clipped), focus = alpha * std::pow(wrong, gamma);
    const double slope = -focus * target / clipped - gamma * focus / wrong * entropy;
    return {focus * entropy, q >= low && q <= high ? slope : 0.0};
  }
};

template <class T>
void CategoricalFocalCrossentropy::compute(TensorView<const T> predictions,
                                           TensorView<const T> targets, std::span<double> losses,
                                           TensorView<T> gradient) const {
  const std::size_t classes = predictions.features();
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const Scale scale = scale_of(predictions, row);
    const auto term_of = [&](std::size_t c, double q) {
      const auto target = static_cast<double>(targets(row, c));
      return term(q,
                  target * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes));
    };
    double loss = 0, mean_slope = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const double q = share(static_cast<double>(predictions(row, c)), scale);
      const Term of_class = term_of(c, q);
      loss += of_class.value;
      mean_slope += q * of_class.slope;
    }
    losses[row] = loss;
    if (gradient.empty()) continue;
    for (std::size_t c = 0; c < classes; ++c) {
      const double q = share(static_cast<double>(predictions(row, c)), scale);
      const double slope = term_of(c, q).slope - mean_slope;
      gradient(row, c) = static_cast<T>(from_logits ? q * slope : slope / scale.sum);
    }
  }
  if (!gradient.empty()) gradient.clear_padding();
}

template <class T>
auto CategoricalFocalCrossentropy::scale_of(TensorView<const T> predictions, std::size_t row) const
    -> Scale {
  Scale scale{static_cast<double>(predictions(row, 0)), 0};
  for (std::size_t c = 1; c < predictions.features(); ++c)
    scale.largest = std::max(scale.largest, static_cast<double>(predictions(row, c)));
  for (std::size_t c = 0; c < predictions.features(); ++c) {
    const auto score = static_cast<double>(predictions(row, c));
    scale.sum += from_logits ? std::exp(score - scale.largest) : score;
  }
  return scale;
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/losses/crossentropies.ipp"
#endif
