// StepContext: what a training step tells the layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The mean of each channel of a layer's input and the sum of squared deviations from it, over a
/// batch, and the layer's variables that are to hold mean and variance.
struct InputMoments {
  double count = 0;  ///< values of each channel
  std::span<const double> mean = {};
  std::span<const double> squares = {};
  void* mean_variable = nullptr;  ///< arrays of the model's scalar type, as long as mean
  void* variance_variable = nullptr;
};

/// The values of a layer's input, over a batch, and the layer's variable that is to hold the
/// boundaries which part all values into bins of equal numbers.
struct InputValues {
  std::span<const float> values = {};
  double epsilon = 0;              ///< the greatest error of a boundary, as a share of the values
  std::size_t boundaries = 0;      ///< one less than bins
  void* boundaries_variable = {};  ///< an array of the model's scalar type
};

/// Takes what one layer after the other says of its input, while a model is adapted to data:
/// moments (Normalization) or values (Discretization).
class MomentSink {
 public:
  using Function = void (*)(void* self, const InputMoments& moments);
  using ValuesFunction = void (*)(void* self, const InputValues& values);

  constexpr MomentSink() noexcept = default;
  constexpr MomentSink(void* self, Function function, ValuesFunction values = nullptr) noexcept
      : self_(self), function_(function), values_(values) {}

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return function_ != nullptr; }
  void operator()(const InputMoments& moments) const { function_(self_, moments); }
  void operator()(const InputValues& values) const {
    if (values_ != nullptr) values_(self_, values);
  }

 private:
  void* self_ = nullptr;
  Function function_ = nullptr;
  ValuesFunction values_ = nullptr;
};

class Trace;

/// Sums `values` in place over all ranks. Every rank must make the same calls in the same order,
/// which keeps them apart from the reduction of the gradients. With one rank it does nothing.
class CrossReplicaSum {
 public:
  using Function = void (*)(void* self, std::span<double> values);

  constexpr CrossReplicaSum() noexcept = default;
  constexpr CrossReplicaSum(void* self, Function function) noexcept
      : self_(self), function_(function) {}

  void operator()(std::span<double> values) const {
    if (function_ != nullptr) function_(self_, values);
  }

 private:
  void* self_ = nullptr;
  Function function_ = nullptr;
};

/// Backward reports its progress here: what is announced holds for these gradients and for those of
/// all later layers. An AnnouncingLayer calls it itself; for other layers the model does.
class BackwardProgress {
 public:
  using Function = void (*)(void* self, const void* end);

  constexpr BackwardProgress() noexcept = default;
  constexpr BackwardProgress(void* self, Function function) noexcept
      : self_(self), function_(function) {}

  /// `gradients`: a layer's slices of an Arena, where they end with the first variable's.
  template <class T>
  void operator()(std::span<const std::span<T>> gradients) const {
    if (!gradients.empty()) (*this)(gradients, gradients.front().size());
  }
  /// The first `count` elements of the first variable, and all other variables of the layer.
  template <class T>
  void operator()(std::span<const std::span<T>> gradients, std::size_t count) const {
    if (function_ != nullptr) function_(self_, gradients.front().data() + count);
  }

 private:
  void* self_ = nullptr;
  Function function_ = nullptr;
};

/// What layers add to the loss beside the loss function.
struct ActivityPenalty {
  double sum = 0;          ///< of this rank's samples: forward adds to it
  double scale = 1;        ///< its gradient times this is what backward adds
  bool is_wanted = false;  ///< forward sets it, on every rank: the model has such a layer
};

/// Passed to forward and backward. Equal on every rank, except for the samples.
struct StepContext {
  bool training = false;
  std::int64_t step = 0;  ///< training steps before this one
  /// Position of the running layer in the flattened model.
  std::size_t layer = 0;
  std::uint64_t seed = 0;  ///< the chief's
  /// Global index of each sample of this rank's part of the batch.
  std::span<const std::int64_t> sample_indices = {};
  /// Rows of the running layer's tensors that belong to one sample: more than 1 where it is applied
  /// to each token of a Sequence.
  std::size_t positions = 1;
  bool frozen = false;  ///< the running layer is not trained (see Frozen)
  CrossReplicaSum cross_replica_sum = {};
  /// These gradients are final: their reduction may begin.
  BackwardProgress gradients_ready = {};
  /// Their variables are not read again in this step either: they may be updated.
  BackwardProgress variables_done = {};
  ActivityPenalty* activity_penalty = nullptr;  ///< null: not wanted
  MomentSink moments = {};  ///< of the input, while the model is adapted to data
  Trace* trace = nullptr;   ///< where the time is recorded; null: nowhere

  /// The key of the random numbers that a layer draws for one row of the batch: a sample, or a
  /// token. It depends on seed, step, layer, the global index of the sample and the position in it,
  /// hence neither on the number of ranks nor on the sharding.
  [[nodiscard]] RandomKey random_key(std::size_t row) const noexcept {
    const RandomKey key = RandomKey(seed)
                              .fold_in(static_cast<std::uint64_t>(step))
                              .fold_in(layer)
                              .fold_in(static_cast<std::uint64_t>(sample_indices[row / positions]));
    return positions == 1 ? key : key.fold_in(row % positions);
  }
};

}}  // namespace lockstep
