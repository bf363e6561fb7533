// Share of right answers among those that say yes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/confusion_counts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of the answers yes that are right; 0 if there is none. An answer is yes if the output
/// is above the threshold, and should be if its target is not 0. The outputs of a row are answers
/// of their own; a class label is taken as a one-hot vector.
struct Precision {
  std::optional<double> thresholds = {};  ///< default 0.5; for logits, 0 is that of probability 0.5
  std::optional<int> top_k =
      {};  ///< only the k highest outputs of a row are yes, with thresholds if they are above it
  std::optional<int> class_id = {};  ///< counts this output alone
  std::string_view name = "precision";

  static constexpr std::size_t state_size = 2;  // right answers yes, wrong answers yes

  [[nodiscard]] std::string description() const { return rule().description(); }
  /// Throws ConfigurationError.
  void validate() const { rule().validate(); }

  /// Throws DataError when the widths of predictions and targets do not fit.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    rule().each(predictions, targets, weights, [&](bool says_yes, bool is_yes, double weight) {
      if (says_yes) state[is_yes ? 0 : 1] += weight;
    });
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return state[0] > 0 ? state[0] / (state[0] + state[1]) : 0.0;
  }

 private:
  [[nodiscard]] detail::YesRule rule() const {
    return {.metric = "precision", .threshold = thresholds, .top_k = top_k, .class_id = class_id};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
