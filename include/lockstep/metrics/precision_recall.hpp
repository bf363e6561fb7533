// Precision, recall, and harmonic means of both.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Which answers are yes.
struct YesRule {
  std::string_view metric;
  std::optional<double> threshold{};
  std::optional<int> top_k{};
  std::optional<int> class_id{};

  [[nodiscard]] std::string description() const {
    return describe_metric(metric, {{"thresholds", optional_text(threshold), std::string("none")},
                                    {"top_k", optional_text(top_k), std::string("none")},
                                    {"class_id", optional_text(class_id), std::string("none")}});
  }
  /// Throws ConfigurationError.
  void validate() const {
    if (top_k && *top_k < 1)
      throw ConfigurationError(concat({metric, ": top_k must be at least 1, got ", *top_k}));
    if (class_id && *class_id < 0)
      throw ConfigurationError(concat({metric, ": class_id must be at least 0, got ", *class_id}));
  }

  /// Calls f(says_yes, is_yes, weight) for each answer that counts. Throws DataError when the
  /// widths do not fit.
  template <class T, class F>
  void each(TensorView<const T> predictions, TensorView<const T> targets,
            std::span<const T> weights, const F& f) const {
    const TargetsOfOutputs<T> wanted(metric, predictions, targets);
    const std::size_t outputs = predictions.features();
    if (class_id && static_cast<std::size_t>(*class_id) >= outputs)
      throw DataError(concat(
          {metric, ": class_id is ", *class_id, ", but the model has ", outputs, " outputs"}));
    const std::size_t first = class_id ? static_cast<std::size_t>(*class_id) : 0;
    const std::size_t last = class_id ? first + 1 : outputs;
    for (std::size_t row = 0; row < predictions.samples(); ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      for (std::size_t o = first; o < last; ++o)
        f(says_yes(predictions, row, o), wanted(row, o) != 0, weight);
    }
  }

 private:
  template <class T>
  [[nodiscard]] bool says_yes(TensorView<const T> predictions, std::size_t row,
                              std::size_t output) const {
    const T score = predictions(row, output);
    if (!top_k) return static_cast<double>(score) > threshold.value_or(0.5);
    int before = 0;  // of equal scores the first ones are among the k
    for (std::size_t o = 0; o < predictions.features(); ++o)
      before += predictions(row, o) > score || (o < output && predictions(row, o) == score) ? 1 : 0;
    return before < *top_k && (!threshold || static_cast<double>(score) > *threshold);
  }
};

/// Precision, or Recall. An answer is yes if the output is above the threshold, and should be if
/// its target is not 0. The outputs of a row are separate answers; a class label is taken as a
/// one-hot vector.
template <bool IsPrecision>
struct RightAnswers {
  std::optional<double> thresholds = {};  ///< default 0.5; for logits, 0 means probability 0.5
  std::optional<int> top_k =
      {};  ///< only the k highest outputs of a row are yes, with thresholds if they are above it
  std::optional<int> class_id = {};  ///< counts this output alone
  std::string_view name = IsPrecision ? "precision" : "recall";

  static constexpr std::size_t state_size = 2;  // right answers yes, others among which these are

  [[nodiscard]] std::string description() const { return rule().description(); }
  /// Throws ConfigurationError.
  void validate() const { rule().validate(); }

  /// Throws DataError when the widths of predictions and targets do not fit.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    rule().each(predictions, targets, weights, [&](bool says_yes, bool is_yes, double weight) {
      if (IsPrecision ? says_yes : is_yes) state[says_yes && is_yes ? 0 : 1] += weight;
    });
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return state[0] > 0 ? state[0] / (state[0] + state[1]) : 0.0;
  }

 private:
  [[nodiscard]] YesRule rule() const {
    return {.metric = IsPrecision ? "precision" : "recall",
            .threshold = thresholds,
            .top_k = top_k,
            .class_id = class_id};
  }
};

}  // namespace detail

/// The share of the answers yes that are right; 0 if there is none. Options: those of RightAnswers.
/// Use: `Precision{}`.
using Precision = detail::RightAnswers<true>;

/// The share of the answers that should be yes and are; 0 if none should be.
/// Use: `Recall{}`.
using Recall = detail::RightAnswers<false>;

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
/// Use: `FBetaScore{.beta = 2}`.
struct FBetaScore {
  ClassAverage average = ClassAverage::none;
  double beta = 1;                       ///< above 0; more gives recall more weight
  std::optional<double> threshold = {};  ///< in (0, 1]
  std::string_view name = "fbeta_score";

  /// For each class: hits, wrong alarms, misses, and how often it is right.
  [[nodiscard]] static std::size_t state_size(std::size_t outputs) { return 4 * outputs; }

  [[nodiscard]] std::string description() const {
    return detail::describe_metric(
        "fbeta_score", {{"average", std::string(to_string(average)), std::string("none")},
                        {"beta", beta, 1.0},
                        {"threshold", detail::optional_text(threshold), std::string("none")}});
  }
  /// Throws ConfigurationError.
  void validate() const {
    if (!(beta > 0)) throw ConfigurationError(concat({name, ": beta must be above 0, got ", beta}));
    if (threshold && !(*threshold > 0 && *threshold <= 1))
      throw ConfigurationError(concat({name, ": threshold must be in (0, 1], got ", *threshold}));
  }

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
  [[nodiscard]] double result(std::span<const double> state) const {
    const std::size_t classes = state.size() / 4;
    double sum[4] = {}, mean = 0, weighted = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      for (std::size_t i = 0; i < 4; ++i) sum[i] += state[4 * c + i];
      mean += score_of(state.subspan(4 * c, 4)) / static_cast<double>(classes);
    }
    if (average == ClassAverage::micro) return score_of(sum);
    if (average != ClassAverage::weighted) return mean;
    for (std::size_t c = 0; c < classes; ++c)
      weighted += score_of(state.subspan(4 * c, 4)) * state[4 * c + 3] / (sum[3] + least);
    return weighted;
  }

  template <class Set>
  void report(std::span<const double> state, Set&& set) const {
    set(std::string_view(), result(state));
    if (average != ClassAverage::none) return;
    for (std::size_t c = 0; c < state.size() / 4; ++c)
      set(std::string_view(concat({"_", c})), score_of(state.subspan(4 * c, 4)));
  }

 private:
  static constexpr double least = 1e-7;

  [[nodiscard]] double score_of(std::span<const double> counts) const {
    const double precision = counts[0] / (counts[0] + counts[1] + least);
    const double recall = counts[0] / (counts[0] + counts[2] + least);
    return (1 + beta * beta) * precision * recall / (beta * beta * precision + recall + least);
  }
};

/// FBetaScore with beta 1: 2 p r / (p + r) for precision p and recall r.
/// Use: `F1Score{.average = ClassAverage::macro}`.
struct F1Score {
  ClassAverage average = ClassAverage::none;
  std::optional<double> threshold = {};  ///< see FBetaScore
  std::string_view name = "f1_score";

  [[nodiscard]] static std::size_t state_size(std::size_t outputs) {
    return FBetaScore::state_size(outputs);
  }

  [[nodiscard]] std::string description() const {
    return detail::describe_metric(
        "f1_score", {{"average", std::string(to_string(average)), std::string("none")},
                     {"threshold", detail::optional_text(threshold), std::string("none")}});
  }
  /// Throws ConfigurationError.
  void validate() const { score().validate(); }

  /// Throws DataError when the widths of predictions and targets do not fit.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    score().update(predictions, targets, weights, state);
  }
  [[nodiscard]] double result(std::span<const double> state) const { return score().result(state); }
  template <class Set>
  void report(std::span<const double> state, Set&& set) const {
    score().report(state, set);
  }

 private:
  [[nodiscard]] FBetaScore score() const {
    return {.average = average, .threshold = threshold, .name = name};
  }
};

}}  // namespace lockstep
