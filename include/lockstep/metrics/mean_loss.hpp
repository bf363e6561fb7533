// A loss as a metric.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"
#include "lockstep/metrics/same_width.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
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
/// model's own loss.
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
    constexpr std::size_t wanted = L::template target_size<Shape<7>>;
    if constexpr (wanted == 7) detail::require_same_width(L::name, outputs, targets);
    if constexpr (wanted == 1) {
      detail::require_labels(L::name, targets);
      detail::require_classes(L::name, outputs);
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

}  // namespace lockstep::inline LOCKSTEP_ABI
