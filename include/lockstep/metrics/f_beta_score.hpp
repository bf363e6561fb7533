// Harmonic mean of precision and recall.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// How the figures of several classes become one.
enum class ClassAverage {
  none,  ///< they do not: "f1_score_0", "f1_score_1", ...; their mean besides, under the plain name
  micro,    ///< the counts of all classes are added first
  macro,    ///< their mean
  weighted  ///< their mean, weighted by how often each class is right
};

[[nodiscard]] constexpr std::string_view to_string(ClassAverage average) {
  constexpr std::string_view names[] = {"none", "micro", "macro", "weighted"};
  return names[static_cast<std::size_t>(average)];
}

/// (1 + beta^2) p r / (beta^2 p + r) for precision p and recall r of each class, as Keras computes
/// it (denominators are 1e-7 more than what they say). A class is predicted where its output is
/// above the threshold; without one, where it is the largest of its row and not 0 (a logit of 0,
/// too: then give probabilities). A class label is taken as a one-hot vector.
struct FBetaScore {
  ClassAverage average = ClassAverage::none;
  double beta = 1;                       ///< above 0; more gives recall more weight
  std::optional<double> threshold = {};  ///< in (0, 1]
  std::string_view name = "fbeta_score";

  /// For each class: hits, wrong alarms, misses, and how often it is right.
  [[nodiscard]] static std::size_t state_size(std::size_t outputs) { return 4 * outputs; }

  [[nodiscard]] std::string description() const;
  /// Throws ConfigurationError.
  void validate() const;

  /// Throws DataError when the widths of predictions and targets do not fit.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    const detail::TargetsOfOutputs<T> wanted("FBetaScore", predictions, targets);
    for (std::size_t row = 0; row < predictions.samples(); ++row) {
      const double weight = detail::weight_of(weights, row);
      if (weight == 0) continue;
      const auto largest =
          static_cast<double>(predictions(row, detail::place_of_largest(predictions, row)));
      for (std::size_t c = 0; c < predictions.features(); ++c) {
        const auto score = static_cast<double>(predictions(row, c));
        const bool is_zero = score <= 1e-9 && score >= -1e-9;
        const double answer =
            (threshold ? score > *threshold : score >= largest && !is_zero) ? 1 : 0;
        const double target = wanted(row, c);
        double* const counts = state.data() + 4 * c;
        counts[0] += weight * answer * target;
        counts[1] += weight * answer * (1 - target);
        counts[2] += weight * (1 - answer) * target;
        counts[3] += weight * target;
      }
    }
  }

  /// With ClassAverage::none, the mean over the classes.
  [[nodiscard]] double result(std::span<const double> state) const;

  template <class Set>
  void report(std::span<const double> state, Set&& set) const {
    set(std::string_view(), result(state));
    if (average != ClassAverage::none) return;
    for (std::size_t c = 0; c < state.size() / 4; ++c)
      set(std::string_view(concat({"_", c})), score_of(state.subspan(4 * c, 4)));
  }

 private:
  static constexpr double least = 1e-7;

  [[nodiscard]] double score_of(std::span<const double> counts) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/f_beta_score.ipp"
#endif
