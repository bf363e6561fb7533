// What one replica owns: gradients, untrained state, and a workspace for the batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/step/non_finite.hpp"
#include "lockstep/step/overlap_choice.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Gradients, untrained state and activations of one replica of Net. The workspace is allocated for the largest batch seen;
/// smaller ones use its beginning. Parameters belong to the model: the replicas of a process share them.
template <class Net, class T, std::size_t TargetSize>
class ReplicaState {
 public:
  using In = typename Net::InputShape;
  using Out = typename Net::template Output<In>;

  /// Elements of untrained state.
  static constexpr std::size_t state_size = [] {
    std::size_t size = 0;
    for (const Variable& variable : Net::template state_variables<In>) size += variable.size();
    return size;
  }();

  template <class Allocate>
  explicit ReplicaState(Allocate&& allocate)
      : gradients_(Net::template variables<In>, allocate),
        state_(Net::template state_variables<In>),
        state_before_step_(state_.values().size()) {}

  /// A step changes untrained state (moving statistics) on its way forward; one that fails later is undone.
  void begin_step() noexcept {
    std::copy(state_.values().begin(), state_.values().end(), state_before_step_.begin());
    in_step_ = true;
  }
  void end_step() noexcept { in_step_ = false; }
  void undo_step() noexcept {
    if (std::exchange(in_step_, false))
      std::copy(state_before_step_.begin(), state_before_step_.end(), state_.values().begin());
  }

  /// `size` numbers for what is reduced beside gradients, allocated once.
  [[nodiscard]] std::span<double> reduced(std::size_t size) {
    if (reduced_.size() < size) reduced_.resize(size);
    return std::span(reduced_).first(size);
  }

  /// Whether reductions overlap with backward, in this fit.
  OverlapChoice overlap;

  /// The first loss that was not finite, in this fit.
  NonFiniteLoss non_finite;

  /// Time in the reductions of steps, to be set back by who reads it.
  Trace::Clock::duration in_collective{};

  [[nodiscard]] const Arena<T>& gradients() const noexcept { return gradients_; }
  [[nodiscard]] Arena<T>& gradients() noexcept { return gradients_; }
  [[nodiscard]] const Arena<T>& state() const noexcept { return state_; }

  /// Makes room for a batch of `samples` and sets the views below. Allocates only when no batch was as large before.
  void resize(std::size_t samples) {
    const std::size_t stride = padded_batch(samples);
    const std::size_t features[] = {In::size, TargetSize, Out::size, Out::size};
    std::size_t elements = Net::template scratch<In>(stride);
    for (const std::size_t count : features) elements += count * stride;
    if (elements * sizeof(T) > workspace_.size()) workspace_ = Buffer(elements * sizeof(T));
    T* next = reinterpret_cast<T*>(workspace_.data());
    TensorView<T>* const views[] = {&x_, &targets_, &y_, &dy_};
    for (std::size_t i = 0; i < 4; ++i) {
      *views[i] = TensorView<T>(next, samples, features[i], stride);
      next += features[i] * stride;
    }
    scratch_ = std::span<T>(next, Net::template scratch<In>(stride));
  }

  /// Takes a batch that lies elsewhere in place of x() and targets(), until resize.
  void use(const BatchViews<T>& batch) noexcept {
    x_ = batch.x;
    targets_ = batch.targets;
  }

  [[nodiscard]] TensorView<T> x() const noexcept { return x_; }
  [[nodiscard]] TensorView<T> targets() const noexcept { return targets_; }
  [[nodiscard]] TensorView<const T> predictions() const noexcept { return y_; }
  /// Where the loss writes the gradient of the predictions.
  [[nodiscard]] TensorView<T> prediction_gradient() const noexcept { return dy_; }

  void forward(const StepContext& context, Slices<T> weights) {
    Net::template forward<In, T>(
        {.context = context, .weights = weights, .state = state_.slices(), .x = x_, .y = y_, .scratch = scratch_});
  }

  /// Calls f(position, y) for the outputs of the layers as forward has left them; `position` counts
  /// layers in the flattened model.
  template <class F>
  void each_output(F f) const {
    const StepContext context;
    const ForwardPass<T> pass{.context = context, .weights = {}, .state = {}, .x = x_, .y = y_, .scratch = scratch_};
    Net::template each_output<In, T>(0, pass, f);
  }

  /// Leaves the sum over the samples in gradients().
  void backward(const StepContext& context, Slices<T> weights) {
    Net::template backward_weights<In, T>({.context = context,
                                           .weights = weights,
                                           .state = state_.slices(),
                                           .x = x_,
                                           .y = y_,
                                           .dy = dy_,
                                           .dx = {},
                                           .gradients = gradients_.slices(),
                                           .scratch = scratch_});
  }

 private:
  Arena<T> gradients_;
  Arena<T> state_;
  std::vector<T> state_before_step_;
  bool in_step_ = false;
  std::vector<double> reduced_;
  Buffer workspace_;
  TensorView<T> x_, targets_, y_, dy_;
  std::span<T> scratch_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
