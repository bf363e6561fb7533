// Losses by the error of each output, and the cosine of all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/elementwise_loss.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Mean over the outputs of a sample of (prediction - target)^2, for targets of the output's shape.
/// The gradient is 2 (prediction - target) / outputs.
/// Use: `MeanSquaredError{}`.
struct MeanSquaredError {
  static constexpr std::string_view name = "mean_squared_error";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

/// Mean over the outputs of a row of |prediction - target|, for targets of the output's shape. The
/// gradient is 0 where they are equal.
/// Use: `MeanAbsoluteError{}`.
struct MeanAbsoluteError : detail::MeanOverOutputs<MeanAbsoluteError> {
  static constexpr std::string_view name = "mean_absolute_error";

  static detail::LossTerm term(double p, double y) {
    const double error = p - y;
    return {std::abs(error), error > 0 ? 1.0 : error < 0 ? -1.0 : 0.0};
  }
};

/// 100 times the mean over the outputs of a row of |prediction - target| / max(|target|, 1e-7), as
/// in Keras: a target of 0 makes it very large.
/// Use: `MeanAbsolutePercentageError{}`.
struct MeanAbsolutePercentageError : detail::MeanOverOutputs<MeanAbsolutePercentageError> {
  static constexpr std::string_view name = "mean_absolute_percentage_error";

  static detail::LossTerm term(double p, double y) {
    const double error = p - y;
    const double scale = 100 / std::max(std::abs(y), 1e-7);
    return detail::LossTerm{scale * std::abs(error), error > 0 ? scale : error < 0 ? -scale : 0.0};
  }
};

/// Mean over the outputs of a row of (log(p + 1) - log(y + 1))^2 for a prediction p and a target y,
/// of which Keras takes max(p, 1e-7) and max(y, 1e-7): for numbers that are not negative. The
/// gradient is 0 where the prediction is below 1e-7.
/// Use: `MeanSquaredLogarithmicError{}`.
struct MeanSquaredLogarithmicError : detail::MeanOverOutputs<MeanSquaredLogarithmicError> {
  static constexpr std::string_view name = "mean_squared_logarithmic_error";

  static detail::LossTerm term(double p, double y) {
    constexpr double lowest = 1e-7;
    const double error = std::log1p(std::max(p, lowest)) - std::log1p(std::max(y, lowest));
    return detail::LossTerm{error * error, p < lowest ? 0.0 : 2 * error / (1 + p)};
  }
};

/// Mean over the outputs of a row of log(cosh(prediction - target)): e^2 / 2 for a small error e,
/// and |e| - log 2 for a large one. Computed as |e| + log(1 + exp(-2 |e|)) - log 2, which does not
/// overflow.
/// Use: `LogCosh{}`.
struct LogCosh : detail::MeanOverOutputs<LogCosh> {
  static constexpr std::string_view name = "log_cosh";

  static detail::LossTerm term(double p, double y) {
    const double error = p - y, size = std::abs(error);
    return {size + std::log1p(std::exp(-2 * size)) - std::numbers::ln2, std::tanh(error)};
  }
};

/// Mean over the outputs of a row of e^2 / 2 where |e| <= delta, and of delta |e| - delta^2 / 2
/// beyond, with e = prediction - target: squares for small errors, and no weight for outliers. (P.
/// Huber, Robust Estimation of a Location Parameter, 1964.)
/// Use: `Huber{.delta = 2}`.
struct Huber {
  double delta = 1;  ///< above 0

  static constexpr std::string_view name = "huber_loss";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;

  [[nodiscard]] std::string description() const { return describe(name, {{"delta", delta}}); }

  /// Throws ConfigurationError.
  void validate() const;

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

/// Mean over the outputs of a row of p - y log(p + 1e-7), for predictions p above 0 and targets y
/// that are counts: the negative logarithm of the Poisson probability without what depends on y
/// alone.
/// Use: `Poisson{}`.
struct Poisson : detail::MeanOverOutputs<Poisson> {
  static constexpr std::string_view name = "poisson";

  static detail::LossTerm term(double p, double y) {
    constexpr double least = 1e-7;
    return {p - y * std::log(p + least), 1 - y / (p + least)};
  }
};

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
/// Use: `CosineSimilarity{}`.
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

template <class T>
void CosineSimilarity::compute(TensorView<const T> predictions, TensorView<const T> targets,
                               std::span<double> losses, TensorView<T> gradient) const {
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    const detail::CosineParts parts = detail::cosine_parts(predictions, targets, row);
    const double cosine = parts.cosine(), length = parts.prediction_length;
    losses[row] = -cosine;
    if (gradient.empty()) continue;
    // (A length that counts as 1e-7 has no gradient.)
    const double along = parts.squares > 1e-14 ? cosine / parts.squares : 0;
    for (std::size_t f = 0; f < predictions.features(); ++f)
      gradient(row, f) =
          static_cast<T>(along * static_cast<double>(predictions(row, f)) -
                         static_cast<double>(targets(row, f)) / (parts.target_length * length));
  }
  if (!gradient.empty()) gradient.clear_padding();
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/losses/regression.ipp"
#endif
