// Area under the ROC curve, or that of precision and recall.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
/// samples, or, with multi_label, each has an area of its own, and the figure is their mean. With
/// roc 0 unless both classes have come.
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
  [[nodiscard]] std::size_t state_size(std::size_t outputs) const;

  [[nodiscard]] std::string description() const;

  /// Throws ConfigurationError.
  void validate() const;

  /// Throws DataError when the widths of predictions and targets do not fit, and for a prediction
  /// that is no probability.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;

  [[nodiscard]] double result(std::span<const double> state) const;

 private:
  [[nodiscard]] std::size_t count() const;

  [[nodiscard]] static std::string list_text(const std::vector<double>& values);

  [[nodiscard]] std::size_t last_threshold_below(double score) const;

  [[noreturn, gnu::cold]] static void throw_no_probability(double p);
  [[nodiscard]] std::size_t place_in_list(double p) const;
  static double ratio(double a, double b) { return b != 0 ? a / b : 0.0; }

  /// Of one label.
  [[nodiscard]] double area(std::span<const double> sums) const;

  /// From one threshold to the next.
  struct Step {
    double hits, alarms, next_hits, next_alarms;
  };
  struct Point {
    double x, y;
  };

  /// The two curves whose lines have formulas without quotients of their ends.
  [[nodiscard]] bool draws_lines() const;

  [[nodiscard]] double area_of(const Step& step, double positives, double negatives) const;

  [[nodiscard]] Point point(double hits, double alarms, double positives, double negatives) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/metrics/auc.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_METRIC_INSTANCES(AUC);
}  // namespace lockstep::inline LOCKSTEP_ABI
