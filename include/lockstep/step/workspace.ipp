#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/step/workspace.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
Workspace<T>::Workspace(const Program<T>& program, Allocate allocate)
    : program_(program),
      gradients_(program.layout().variables, allocate),
      state_(program.layout().state_variables),
      state_before_step_(state_.values().size()),
      status_(program.layout().metric_state) {
  std::size_t elements = 0;
  for (const Variable& variable : program.layout().state_variables) elements += variable.size();
  packed_.resize(status_.values().size() + elements);
}

template <class T>
void Workspace<T>::begin_step() noexcept {
  std::copy(state_.values().begin(), state_.values().end(), state_before_step_.begin());
  in_step_ = true;
}

template <class T>
void Workspace<T>::undo_step() noexcept {
  if (std::exchange(in_step_, false))
    std::copy(state_before_step_.begin(), state_before_step_.end(), state_.values().begin());
}

template <class T>
std::span<double> Workspace<T>::pack_status() {
  const double samples = status_[StatusBlock::samples];
  double* next = std::copy(status_.values().begin(), status_.values().end(), packed_.data());
  for (const auto slice : state_.slices())
    for (const T value : slice) *next++ = samples > 0 ? samples * static_cast<double>(value) : 0;
  return packed_;
}

template <class T>
void Workspace<T>::take_status(int ranks) {
  const std::size_t size = status_.values().size();
  std::copy_n(packed_.data(), size, status_.values().begin());
  const double samples = status_[StatusBlock::samples];
  if (ranks == 1 || samples == 0) return;
  const double* next = packed_.data() + size;
  for (const auto slice : state_.slices())
    for (T& value : slice) value = static_cast<T>(*next++ / samples);
}

template <class T>
void Workspace<T>::resize(std::size_t samples) {
  const auto& layout = program_.layout();
  const std::size_t stride = padded_batch(samples);
  const std::size_t scratch = program_.scratch(stride);
  const std::size_t features[] = {layout.inputs, layout.targets, layout.outputs, layout.outputs};
  std::size_t elements = scratch;
  for (const std::size_t count : features) elements += count * stride;
  if (elements * sizeof(T) > memory_.size()) memory_ = Buffer(elements * sizeof(T));
  T* next = reinterpret_cast<T*>(memory_.data());
  TensorView<T>* const views[] = {&x_, &targets_, &y_, &dy_};
  for (std::size_t i = 0; i < 4; ++i) {
    *views[i] = TensorView<T>(next, samples, features[i], stride);
    next += features[i] * stride;
  }
  scratch_ = std::span<T>(next, scratch);
}

template <class T>
void Workspace<T>::use(const BatchViews<T>& batch) noexcept {
  x_ = batch.x;
  targets_ = batch.targets;
}

template <class T>
void Workspace<T>::forward(const StepContext& context, Slices<T> weights) {
  program_.forward(
      {.context = context, .weights = weights, .state = state_.slices(), .x = x_, .y = y_, .scratch = scratch_});
}

template <class T>
void Workspace<T>::each_output(typename Program<T>::EachOutput f) const {
  const StepContext context;
  program_.each_output({.context = context, .weights = {}, .state = {}, .x = x_, .y = y_, .scratch = scratch_}, f);
}

template <class T>
void Workspace<T>::backward(const StepContext& context, Slices<T> weights) {
  program_.backward({.context = context,
                     .weights = weights,
                     .state = state_.slices(),
                     .x = x_,
                     .y = y_,
                     .dy = dy_,
                     .dx = {},
                     .gradients = gradients_.slices(),
                     .scratch = scratch_});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
