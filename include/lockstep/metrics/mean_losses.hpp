// Losses as metrics: MeanLoss, those with Keras's names, and functions of a mean loss.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/hinges.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Memory of the calling thread for the losses of a batch and their weights, kept for its next
/// batch.
template <class T>
struct MeanLossMemory {
  std::vector<double> losses;
  std::vector<T> weights;
  std::vector<T> targets;

  [[nodiscard]] static MeanLossMemory& of_this_thread(std::size_t rows) {
    thread_local MeanLossMemory memory;
    if (memory.losses.size() < rows) {
      memory.losses.resize(rows);
      memory.weights.resize(rows);
    }
    return memory;
  }
};

}  // namespace detail

/// The weighted mean of a loss over the rows: `MeanLoss{Huber{.delta = 2}}`. Without what
/// regularisers and other parts add to the loss that is trained. The targets are those of the
/// model's loss.
/// Use: `MeanLoss<Huber>{}`. Keras: `MeanMetricWrapper`.
template <class L>
struct MeanLoss {
  L loss{};
  std::string_view name = L::name;

  static constexpr std::size_t state_size = 2;  // sum of losses, rows

  [[nodiscard]] std::string description() const { return loss.description(); }
  void validate() const {
    if constexpr (requires { loss.validate(); }) loss.validate();
  }

  /// Throws DataError when predictions and targets have not the widths that the loss wants.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const {
    check_widths(predictions.features(), targets.features());
    auto& memory = detail::MeanLossMemory<T>::of_this_thread(predictions.samples());
    const std::span<double> losses = std::span(memory.losses).first(predictions.samples());
    const TensorView<const T> counted = without_uncounted(targets, weights, memory.targets);
    loss.compute(predictions, counted, losses, TensorView<T>());
    if constexpr (IgnoringLoss<L, T>) {
      const std::span<T> own = std::span(memory.weights).first(predictions.samples());
      for (std::size_t row = 0; row < own.size(); ++row)
        own[row] = weights.empty() ? T(1) : weights[row];
      if (loss.ignore(counted, own)) return add(losses, std::span<const T>(own), state);
    }
    add(losses, weights, state);
  }

  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? state[0] / state[1] : 0.0;
  }

 private:
  /// By what the loss asks for with seven outputs.
  static void check_widths(std::size_t outputs, std::size_t targets) {
    if constexpr (requires { L::has_steps; }) {
      if (targets == 0 || outputs % targets != 0)
        throw DataError(concat({L::name, ": ", targets, " targets for ", outputs,
                                " outputs; expected one for each step"}));
    } else {
      constexpr std::size_t wanted = L::template target_size<Shape<7>>;
      if constexpr (wanted == 7) detail::require_same_width(L::name, outputs, targets);
      if constexpr (wanted == 1) {
        detail::require_labels(L::name, targets);
        detail::require_classes(L::name, outputs);
      }
    }
  }

  /// The targets, with 0 in the rows that do not count: these may hold anything, and a loss refuses
  /// what is no target. The copy, where one is needed, is made in `room`.
  template <class T>
  static TensorView<const T> without_uncounted(TensorView<const T> targets,
                                               std::span<const T> weights, std::vector<T>& room) {
    if (std::ranges::find(weights, T(0)) == weights.end()) return targets;
    const std::size_t stride = targets.stride();
    room.assign(stride * targets.features(), T(0));
    for (std::size_t f = 0; f < targets.features(); ++f)
      for (std::size_t row = 0; row < targets.samples(); ++row)
        if (weights[row] != T(0)) room[f * stride + row] = targets(row, f);
    return {room.data(), targets.samples(), targets.features(), stride};
  }

  template <class T>
  static void add(std::span<const double> losses, std::span<const T> weights,
                  std::span<double> state) {
    for (std::size_t row = 0; row < losses.size(); ++row) {
      const double weight = detail::weight_of(weights, row);
      if (weight == 0) continue;
      state[0] += weight * losses[row];
      state[1] += weight;
    }
  }
};
template <class L>
MeanLoss(L) -> MeanLoss<L>;

}}  // namespace lockstep

/// Metrics that have the name of a loss. Options go to the loss:
/// `metrics::BinaryCrossentropy{.loss = {.from_logits = true}}`.
namespace lockstep { inline namespace LOCKSTEP_ABI { namespace metrics {

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
/// Use: `metrics::CosineSimilarity{}`.
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

}}}  // namespace lockstep::metrics

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The root of the mean of (prediction - target)^2 over all outputs of all rows.
/// Use: `RootMeanSquaredError{}`.
struct RootMeanSquaredError {
  std::string_view name = "root_mean_squared_error";

  static constexpr std::size_t state_size = 2;  // sum of the rows' means, rows

  /// Throws DataError when the widths of predictions and targets differ.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;
  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? std::sqrt(state[0] / state[1]) : 0.0;
  }
};

template <class T>
void RootMeanSquaredError::update(TensorView<const T> predictions, TensorView<const T> targets,
                                  std::span<const T> weights, std::span<double> state) const {
  MeanLoss<MeanSquaredError>{}.update(predictions, targets, weights, state);
}

/// e to the mean crossentropy of the rows (tokens), whose targets are class labels; KerasHub's.
/// Tokens that are masked do not count, nor do those that the model's loss ignores.
/// Use: `Perplexity{.from_logits = true}`. Keras: none (KerasHub has it).
struct Perplexity {
  bool from_logits = false;               ///< true: the model ends without softmax
  std::optional<int> mask_token_id = {};  ///< tokens with this label do not count
  std::string_view name = "perplexity";

  static constexpr std::size_t state_size = 2;  // sum of crossentropies, tokens

  [[nodiscard]] std::string description() const {
    return detail::describe_metric(
        "perplexity",
        {{"from_logits", from_logits, false},
         {"mask_token_id", detail::optional_text(mask_token_id), std::string("none")}});
  }

  /// Throws DataError unless there is one target for several outputs; BadSample for a label that is
  /// no class.
  template <class T>
  void update(TensorView<const T> predictions, TensorView<const T> targets,
              std::span<const T> weights, std::span<double> state) const;
  [[nodiscard]] double result(std::span<const double> state) const {
    return state[1] > 0 ? std::exp(state[0] / state[1]) : 0.0;
  }

 private:
  [[nodiscard]] MeanLoss<SparseCategoricalCrossentropy> mean() const {
    return {.loss = {.from_logits = from_logits, .ignore_class = mask_token_id}};
  }
};

template <class T>
void Perplexity::update(TensorView<const T> predictions, TensorView<const T> targets,
                        std::span<const T> weights, std::span<double> state) const {
  mean().update(predictions, targets, weights, state);
}

}}  // namespace lockstep
