// Cross-entropy of yes-or-no answers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/losses/bad_target.hpp"
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

  [[nodiscard]] std::string description() const {
    return describe(name, {{"from_logits", from_logits}, {"label_smoothing", label_smoothing}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (!(label_smoothing >= 0 && label_smoothing <= 1))
      throw ConfigurationError("binary_crossentropy: label_smoothing is " +
                               number_text(label_smoothing) + "; expected a number in [0, 1]");
  }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const {
    check(targets);
    std::fill_n(losses.begin(), predictions.samples(), 0.0);
    for (std::size_t f = 0; f < predictions.features(); ++f) {
      for (std::size_t row = 0; row < predictions.samples(); ++row) {
        const double target = smoothed(static_cast<double>(targets(row, f)));
        losses[row] += cross_entropy(static_cast<double>(predictions(row, f)), target) /
                       static_cast<double>(predictions.features());
      }
      if (!gradient.empty()) differentiate(predictions, targets, gradient, f);
    }
    if (!gradient.empty()) gradient.clear_padding();
  }

 private:
  static constexpr double lowest = 1e-7;

  template <class T>
  static void check(TensorView<const T> targets) {
    for (std::size_t row = 0; row < targets.samples(); ++row)
      for (std::size_t f = 0; f < targets.features(); ++f)
        if (const auto target = static_cast<double>(targets(row, f)); !(target >= 0 && target <= 1))
          throw BadTarget("binary_crossentropy: a target of ", row,
                          concat({" is ", target, "; expected 0 to 1"}));
  }

  [[nodiscard]] double smoothed(double target) const {
    return target * (1 - label_smoothing) + label_smoothing / 2;
  }

  [[nodiscard]] double cross_entropy(double score, double target) const {
    if (from_logits)
      return std::max(score, 0.0) - score * target + std::log1p(std::exp(-std::abs(score)));
    const double q = std::clamp(score, lowest, 1 - lowest);
    return -target * std::log(q) - (1 - target) * std::log(1 - q);
  }

  // Of output `f`.
  template <class T>
  void differentiate(TensorView<const T> predictions, TensorView<const T> targets,
                     TensorView<T> gradient, std::size_t f) const {
    const T scale = T(1) / static_cast<T>(predictions.features());
    const T kept = static_cast<T>(1 - label_smoothing), added = static_cast<T>(label_smoothing / 2);
    const T low = static_cast<T>(lowest), high = static_cast<T>(1 - lowest);
    const auto of_logit = [=](auto& g, const auto& z, const auto& y) LOCKSTEP_KERNEL_LAMBDA {
      using P = std::remove_cvref_t<decltype(g)>;
      const P small = exp(-abs(z));  // no overflow for either sign
      const P sigmoid = select(z < P(T(0)), small, P(T(1))) / (P(T(1)) + small);
      g = scale * (sigmoid - (kept * y + added));
    };
    const auto of_probability = [=](auto& g, const auto& p, const auto& y) LOCKSTEP_KERNEL_LAMBDA {
      using P = std::remove_cvref_t<decltype(g)>;
      const P slope = scale * (p - (kept * y + added)) / (p * (P(T(1)) - p));
      g = select((p >= P(low)) & (p <= P(high)), slope, P(T(0)));
    };
    const auto sweep = [&](const auto& formula) {
      kernels::sweep(predictions.samples(), formula, gradient.feature(f), predictions.feature(f),
                     targets.feature(f));
    };
    from_logits ? sweep(of_logit) : sweep(of_probability);
  }
};

LOCKSTEP_INSTANCE(void BinaryCrossentropy::compute<float>(
    TensorView<const float>, TensorView<const float>, std::span<double>, TensorView<float>) const);
LOCKSTEP_INSTANCE(void BinaryCrossentropy::compute<double>(TensorView<const double>,
                                                           TensorView<const double>,
                                                           std::span<double>, TensorView<double>)
                      const);

}  // namespace lockstep::inline LOCKSTEP_ABI
