// Cosine of the angle between predictions and targets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Dot product and lengths of two vectors; lengths below 1e-7 count as 1e-7, as in Keras.
struct CosineParts {
  double dot = 0, squares = 0, prediction_length = 0, target_length = 0;

  [[nodiscard]] double cosine() const { return dot / (prediction_length * target_length); }
};

template <class T>
CosineParts cosine_parts(TensorView<const T> predictions, TensorView<const T> targets,
                         std::size_t row) {
  constexpr double least = 1e-7;
  CosineParts parts;
  double target_squares = 0;
  for (std::size_t f = 0; f < predictions.features(); ++f) {
    const auto p = static_cast<double>(predictions(row, f)),
               y = static_cast<double>(targets(row, f));
    parts.dot += p * y;
    parts.squares += p * p;
    target_squares += y * y;
  }
  parts.prediction_length = std::sqrt(std::max(parts.squares, least * least));
  parts.target_length = std::sqrt(std::max(target_squares, least * least));
  return parts;
}

}  // namespace detail

/// Minus the cosine of the angle between a row's predictions and its targets, over all outputs of
/// the row: -1 where they have one direction, 1 where they have opposite ones, and 0 where one is
/// zero.
struct CosineSimilarity {
  static constexpr std::string_view name = "cosine_similarity";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/losses/cosine_similarity.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI {
LOCKSTEP_LOSS_INSTANCES(CosineSimilarity);
}  // namespace lockstep::inline LOCKSTEP_ABI
