// Area under the ROC curve, or that of precision and recall.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What an area lies under.
enum class AUCCurve {
  roc,    ///< true positive rate over false positive rate
  pr,     ///< precision over recall
  prgain  ///< precision gain over recall gain (Flach and Kull, 2015)
};

/// How a curve is drawn between two thresholds.
enum class AUCSummationMethod {
  interpolation,  ///< a straight line; for pr the formula of Davis and Goadrich (2006)
  minoring,       ///< the lower of both ends
  majoring        ///< the higher of both ends
};

/// The area under a curve as Keras computes it: at thresholds in [0, 1]. Outputs are probabilities,
/// or logits with from_logits; targets are 0 and 1, or shares of both. Several outputs count like
/// samples, or, with multi_label, each has its own area, and the figure is their mean. With
/// roc 0 unless both classes have come.
/// Use: `AUC{.curve = AUCCurve::pr, .from_logits = true}`.
struct AUC {
  std::size_t num_thresholds = 200;  ///< at least 2, evenly from 0 to 1, both ends included
  AUCCurve curve = AUCCurve::roc;
  AUCSummationMethod summation_method = AUCSummationMethod::interpolation;
  std::string_view name = "auc";
  std::vector<double> thresholds = {};  ///< in place of num_thresholds: ascending, between 0 and 1
  bool multi_label = false;
  std::vector<double> label_weights = {};  ///< of the outputs; default: equal
  bool from_logits = false;

  /// For each threshold: the positives above it and not above the next, and the negatives. With
  /// multi_label, one output after the other. Throws ConfigurationError for label_weights of
  /// another number.
  [[nodiscard]] std::size_t state_size(std::size_t outputs) const {
    if (!label_weights.empty() && label_weights.size() != outputs)
      throw ConfigurationError(
          concat({name, ": there are ", label_weights.size(), " label_weights for ", outputs,
                  " outputs; expected as many"}));
    return 2 * count() * (multi_label ? outputs : 1);
  }

  [[nodiscard]] std::string description() const {
    constexpr std::string_view curves[] = {"roc", "pr", "prgain"};
    constexpr std::string_view methods[] = {"interpolation", "minoring", "majoring"};
    return detail::describe_metric(
        "auc",
        {{"num_thresholds", static_cast<std::int64_t>(count()), std::int64_t{200}},
         {"curve", std::string(curves[static_cast<std::size_t>(curve)]), std::string("roc")},
         {"summation_method", std::string(methods[static_cast<std::size_t>(summation_method)]),
          std::string("interpolation")},
         {"thresholds", list_text(thresholds), std::string()},
         {"multi_label", multi_label, false},
         {"label_weights", list_text(label_weights), std::string()},
         {"from_logits", from_logits, false}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    if (num_thresholds < 2 || num_thresholds > 1'000'000)
      throw ConfigurationError(
          concat({name, ": num_thresholds must be in [2, 1000000], got ", num_thresholds}));
    for (std::size_t i = 0; i < thresholds.size(); ++i)
      if (!(thresholds[i] >= 0 && thresholds[i] <= 1) ||
          (i > 0 && thresholds[i] <= thresholds[i - 1]))
        throw ConfigurationError(
            concat({name, ": thresholds must ascend between 0 and 1, got ", thresholds[i]}));
  }

  /// Throws DataError when the widths of predictions and targets do not fit, and for a prediction
  /// that is no probability.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const {
    const std::size_t size = 2 * count();
    double sum = 0, all = 0;
    for (std::size_t label = 0; label < state.size() / size; ++label) {
      const double weight = multi_label && !label_weights.empty() ? label_weights[label] : 1.0;
      sum += weight * area(state.subspan(label * size, size));
      all += weight;
    }
    return all > 0 ? sum / all : 0.0;
  }

 private:
  [[nodiscard]] std::size_t count() const {
    return thresholds.empty() ? num_thresholds : thresholds.size() + 2;
  }

  [[nodiscard]] static std::string list_text(const std::vector<double>& values) {
    std::string text;
    for (const double value : values) text += concat({text.empty() ? "" : " ", value});
    return text;
  }

  [[nodiscard]] std::size_t last_threshold_below(double score) const {
    const double p = from_logits ? 1 / (1 + std::exp(-score)) : score;
    if (p < 0 || p > 1) throw_no_probability(p);
    if (!thresholds.empty()) return place_in_list(p);
    const double place = std::ceil(p * static_cast<double>(num_thresholds - 1)) - 1;
    return place > 0 ? static_cast<std::size_t>(place) : 0;  // (0 for NaN)
  }

  [[noreturn, gnu::cold]] static void throw_no_probability(double p) {
    throw DataError(
        concat({"AUC: a prediction is ", p,
                "; expected a probability: end the model with a sigmoid, or set .from_logits"}));
  }
  [[nodiscard]] std::size_t place_in_list(double p) const {
    return static_cast<std::size_t>(std::lower_bound(thresholds.begin(), thresholds.end(), p) -
                                    thresholds.begin());
  }
  static double ratio(double a, double b) { return b != 0 ? a / b : 0.0; }

  /// The area of one label.
  [[nodiscard]] double area(std::span<const double> sums) const {
    double positives = 0, negatives = 0;
    for (std::size_t i = 0; i < count(); ++i) {
      positives += sums[i];
      negatives += sums[count() + i];
    }
    double total = 0, hits = 0, alarms = 0;  // above the threshold
    for (std::size_t i = count(); i > 0; --i) {
      const double more = sums[i - 1], more_alarms = sums[count() + i - 1];
      if (i < count()) {
        const Step step{.hits = hits + more,
                        .alarms = alarms + more_alarms,
                        .next_hits = hits,
                        .next_alarms = alarms};
        total += area_of(step, positives, negatives);
      }
      hits += more;
      alarms += more_alarms;
    }
    if (!draws_lines()) return total;
    return curve == AUCCurve::pr ? ratio(total, positives)
                                 : ratio(total / 2, positives * negatives);
  }

  /// From one threshold to the next.
  struct Step {
    double hits, alarms, next_hits, next_alarms;
  };
  struct Point {
    double x, y;
  };

  /// The two curves whose lines have formulas without quotients of their ends.
  [[nodiscard]] bool draws_lines() const {
    return summation_method == AUCSummationMethod::interpolation && curve != AUCCurve::prgain;
  }

  [[nodiscard]] double area_of(const Step& step, double positives, double negatives) const {
    if (draws_lines() && curve == AUCCurve::roc)
      return (step.alarms - step.next_alarms) * (step.hits + step.next_hits);
    if (draws_lines()) {
      const double more = step.hits - step.next_hits, all = step.hits + step.alarms;
      const double next = step.next_hits + step.next_alarms, slope = ratio(more, all - next);
      const double intercept = step.next_hits - slope * next;
      return slope * (more + intercept * std::log(all > 0 && next > 0 ? all / next : 1.0));
    }
    const Point here = point(step.hits, step.alarms, positives, negatives);
    const Point next = point(step.next_hits, step.next_alarms, positives, negatives);
    const double height =
        summation_method == AUCSummationMethod::minoring   ? std::min(here.y, next.y)
        : summation_method == AUCSummationMethod::majoring ? std::max(here.y, next.y)
                                                           : (here.y + next.y) / 2;
    return (here.x - next.x) * height;
  }

  [[nodiscard]] Point point(double hits, double alarms, double positives, double negatives) const {
    if (curve == AUCCurve::roc) return {ratio(alarms, negatives), ratio(hits, positives)};
    if (curve == AUCCurve::pr) return {ratio(hits, positives), ratio(hits, hits + alarms)};
    if (hits == 0) return {0, 1};
    const double scale = ratio(positives, negatives);
    return {std::max(1 - scale * (positives - hits) / hits, 0.0), 1 - scale * alarms / hits};
  }
};

template <class T>
void AUC::update(TensorView<const T> predictions, TensorView<const T> targets,
                 std::span<const T> weights, std::span<double> state) const {
  const detail::TargetsOfOutputs<T> wanted("AUC", predictions, targets);
  for (std::size_t f = 0; f < predictions.features(); ++f) {
    const std::span<double> sums =
        multi_label ? state.subspan(2 * count() * f, 2 * count()) : state;
    const double share = multi_label || label_weights.empty() ? 1.0 : label_weights[f];
    for (std::size_t row = 0; row < predictions.samples(); ++row) {
      const double weight = share * detail::weight_of(weights, row);
      if (weight == 0) continue;
      const double target = wanted(row, f);
      const std::size_t above = last_threshold_below(static_cast<double>(predictions(row, f)));
      sums[above] += weight * target;
      sums[count() + above] += weight * (1 - target);
    }
  }
}

}}  // namespace lockstep
