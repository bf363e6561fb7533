// The losses as metrics, under Keras's names.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/binary_crossentropy.hpp"
#include "lockstep/losses/categorical_crossentropy.hpp"
#include "lockstep/losses/categorical_hinge.hpp"
#include "lockstep/losses/cosine_similarity.hpp"
#include "lockstep/losses/hinge.hpp"
#include "lockstep/losses/kl_divergence.hpp"
#include "lockstep/losses/log_cosh.hpp"
#include "lockstep/losses/mean_absolute_error.hpp"
#include "lockstep/losses/mean_absolute_percentage_error.hpp"
#include "lockstep/losses/mean_squared_error.hpp"
#include "lockstep/losses/mean_squared_logarithmic_error.hpp"
#include "lockstep/losses/poisson.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/losses/squared_hinge.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/mean_loss.hpp"

/// Metrics that have the name of a loss. Options go to the loss:
/// `metrics::BinaryCrossentropy{.loss = {.from_logits = true}}`.
namespace lockstep::inline LOCKSTEP_ABI::metrics {

using BinaryCrossentropy = MeanLoss<lockstep::BinaryCrossentropy>;
using CategoricalCrossentropy = MeanLoss<lockstep::CategoricalCrossentropy>;
using CategoricalHinge = MeanLoss<lockstep::CategoricalHinge>;
using Hinge = MeanLoss<lockstep::Hinge>;
using KLDivergence = MeanLoss<lockstep::KLDivergence>;
using LogCoshError = MeanLoss<lockstep::LogCosh>;
using MeanAbsoluteError = MeanLoss<lockstep::MeanAbsoluteError>;
using MeanAbsolutePercentageError = MeanLoss<lockstep::MeanAbsolutePercentageError>;
using MeanSquaredError = MeanLoss<lockstep::MeanSquaredError>;
using MeanSquaredLogarithmicError = MeanLoss<lockstep::MeanSquaredLogarithmicError>;
using Poisson = MeanLoss<lockstep::Poisson>;
using SparseCategoricalCrossentropy = MeanLoss<lockstep::SparseCategoricalCrossentropy>;
using SquaredHinge = MeanLoss<lockstep::SquaredHinge>;

/// The mean cosine of the angle between the predictions of a row and its targets: 1 where they have
/// one direction. (The loss of this name is minus that.)
struct CosineSimilarity {
  std::string_view name = "cosine_similarity";

  static constexpr std::size_t state_size = 2;  // sum of minus cosines, rows

  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    MeanLoss<lockstep::CosineSimilarity>{}.update(predictions, targets, weights, state);
  }
  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? -state[0] / state[1] : 0.0;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::metrics
