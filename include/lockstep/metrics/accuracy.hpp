// Share of right answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/metrics/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The share of samples that are classified rightly, in [0, 1]. What is right depends on the
/// widths, as when Keras is given the name "accuracy":
///
///   outputs  targets
///   1        1        binary: the output is above 0.5 exactly when the target is 1 (a logit, too,
///                     is compared with 0.5)
///   n > 1    1        sparse categorical: the largest output is that of the target, a class label
///   n > 1    n        categorical: the largest output is where the largest target is
///
/// Of equal outputs the first counts as the largest. Other widths throw DataError.
struct Accuracy {
  static constexpr std::string_view name = "accuracy";
  static constexpr std::size_t state_size = 2;  // right answers, samples

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    const std::size_t outputs = predictions.features();
    if (targets.features() != 1 && targets.features() != outputs)
      throw DataError("Accuracy: the model has " + std::to_string(outputs) +
                      " outputs and the data " + std::to_string(targets.features()) +
                      " target values per sample; expected 1 or " + std::to_string(outputs));
    double right = 0, all = 0;
    for (std::size_t row = 0; row < predictions.samples(); row += lanes) {
      T answers[lanes], wanted[lanes];
      if (outputs == 1)
        for (std::size_t i = 0; i < lanes; ++i)
          answers[i] = predictions.data()[row + i] > T(0.5) ? T(1) : T(0);
      else
        find_largest(predictions, row, answers);
      if (targets.features() == 1)
        std::copy_n(targets.data() + row, lanes, wanted);
      else
        find_largest(targets, row, wanted);
      for (std::size_t i = 0; i < std::min(lanes, predictions.samples() - row); ++i) {
        const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[row + i]);
        right += answers[i] == wanted[i] ? weight : 0;
        all += weight;
      }
    }
    state[0] += right;
    state[1] += all;
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? state[0] / state[1] : 0.0;
  }

 private:
  static constexpr std::size_t lanes = batch_multiple;

  template <class T>
  static void find_largest(TensorView<const T> values, std::size_t row, T (&index)[lanes]) {
    T largest[lanes];
    std::copy_n(values.feature(0) + row, lanes, largest);
    std::fill_n(index, lanes, T(0));
    for (std::size_t c = 1; c < values.features(); ++c) {
      const T* v = values.feature(c) + row;
      for (std::size_t i = 0; i < lanes; ++i) {
        index[i] = v[i] > largest[i] ? static_cast<T>(c) : index[i];
        largest[i] = v[i] > largest[i] ? v[i] : largest[i];
      }
    }
  }
};

LOCKSTEP_INSTANCE(void Accuracy::update<float>(TensorView<const float>, TensorView<const float>,
                                               std::span<const float>, std::span<double>) const);
LOCKSTEP_INSTANCE(void Accuracy::update<double>(TensorView<const double>, TensorView<const double>,
                                                std::span<const double>, std::span<double>) const);

}  // namespace lockstep::inline LOCKSTEP_ABI
