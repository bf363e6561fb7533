// Harmonic mean of precision and recall, equally weighted.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/describe_metric.hpp"
#include "lockstep/metrics/f_beta_score.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// FBetaScore with beta 1: 2 p r / (p + r) for precision p and recall r.
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

}  // namespace lockstep::inline LOCKSTEP_ABI
