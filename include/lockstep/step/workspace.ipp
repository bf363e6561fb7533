#pragma once

#include <cmath>
#include <utility>

#include "lockstep/kernels/sequences.hpp"
#include "lockstep/step/workspace.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Zeros that the processor uses in each step.
template <class T>
Buffer for_host(const Program<T>& program, std::size_t bytes) {
  return program.device() == nullptr ? Buffer(bytes) : program.device()->allocate_for_host(bytes);
}

template <class T>
Workspace<T>::Workspace(const Program<T>& program, Allocate allocate)
    : regularization(program.layout().variables),
      constraints(program.layout().variables),
      program_(program),
      gradients_(program.layout().variables, allocate),
      state_(program.layout().state_variables,
             [&](std::size_t bytes) { return for_host(program, bytes); }),
      state_before_step_(program.layout().state_variables),
      status_(program.layout().metric_state) {
  std::size_t elements = 0;
  for (const Variable& variable : program.layout().state_variables)
    if (!variable.is_constant) elements += variable.size();
  packed_.resize(status_.values().size() + elements);
}

template <class T>
void Workspace<T>::keep_residuals() {
  residuals_ = Arena<T>(program_.layout().variables);
}

template <class T>
void Workspace<T>::begin_step(bool continues) noexcept {
  if (!continues) std::ranges::copy(state_.values(), state_before_step_.values().begin());
  in_step_ = true;
}

template <class T>
void Workspace<T>::undo_step() noexcept {
  if (std::exchange(in_step_, false))
    std::ranges::copy(state_before_step_.values(), state_.values().begin());
}

template <class T>
std::span<double> Workspace<T>::pack_status() {
  const double samples = status_[StatusBlock::samples];
  double* next = std::copy(status_.values().begin(), status_.values().end(), packed_.data());
  for (std::size_t i = 0; i < state_.slices().size(); ++i)
    if (!program_.layout().state_variables[i].is_constant)
      for (const T value : state_.slices()[i])
        *next++ = samples > 0 ? samples * static_cast<double>(value) : 0;
  return packed_;
}

template <class T>
void Workspace<T>::take_status(int ranks) {
  const std::size_t size = status_.values().size();
  std::copy_n(packed_.data(), size, status_.values().begin());
  const double samples = status_[StatusBlock::samples];
  if (ranks == 1 || samples == 0) return;
  const double* next = packed_.data() + size;
  for (std::size_t i = 0; i < state_.slices().size(); ++i)
    if (!program_.layout().state_variables[i].is_constant)
      for (T& value : state_.slices()[i]) value = static_cast<T>(*next++ / samples);
}

template <class T>
void Workspace<T>::resize(std::size_t samples, std::size_t weight_size) {
  const auto& layout = program_.layout();
  const std::size_t rows = samples * layout.positions;
  const std::size_t scratch = program_.scratch(samples);
  const std::size_t temporary = program_.temporary(samples);
  const auto arrays = batch_arrays(layout, samples, weight_size);
  const std::size_t elements = elements_of(arrays);
  const std::size_t on_device = program_.device() == nullptr ? 0 : scratch + temporary;
  const std::size_t bytes = (elements + scratch + temporary - on_device) * sizeof(T);
  if (bytes > memory_.size()) {
    program_.synchronize();  // which may still read it
    memory_ = for_host(program_, bytes);
  }
  if (on_device * sizeof(T) > device_memory_.size())
    device_memory_ = program_.allocate(on_device * sizeof(T));
  if (rows > losses_.size()) {
    losses_.resize(rows);
    weights_.resize(rows);
    sample_weights_.resize(rows);
  }
  T* next = reinterpret_cast<T*>(memory_.data());
  TensorView<T>* const views[] = {&own_x_, &batch_targets_, &rows_of_targets_, &y_, &dy_};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    *views[i] =
        TensorView<T>(next, arrays[i].samples, arrays[i].features, padded_batch(arrays[i].samples));
    next += arrays[i].elements();
  }
  x_ = own_x_;
  set_targets(batch_targets_, layout.targets * layout.positions);
  has_targets_ = true;
  if (on_device > 0) next = reinterpret_cast<T*>(device_memory_.data());
  scratch_ = std::span<T>(next, scratch);
  temporary_ = std::span<T>(next + scratch, temporary);
}

template <class T>
void Workspace<T>::set_targets(const TensorView<const T>& batch, std::size_t targets) {
  batch_weights_ = {};
  if (batch.features() > targets && batch.samples() > 0)
    batch_weights_ = TensorView<const T>(batch.feature(targets), batch.samples(),
                                         batch.features() - targets, batch.stride());
  targets_ = rows_of_targets_;
  if (program_.layout().positions == 1)
    targets_ = TensorView<const T>(batch.data(), batch.samples(),
                                   std::min(targets, batch.features()), batch.stride());
}

template <class T>
void Workspace<T>::use(TensorView<const T> x, TensorView<const T> targets,
                       std::size_t weight_size) {
  x_ = x;
  const auto& layout = program_.layout();
  const std::size_t values = targets.features() > 0 ? targets.features() - weight_size : 0;
  const std::size_t of_row = values / layout.positions;
  has_targets_ = of_row == layout.targets || layout.targets == 0;
  set_targets(targets, values);
  if (layout.positions == 1 || values == 0) return;
  TensorView<T> rows = rows_of_targets_;
  if (of_row != layout.targets) {
    const std::size_t bytes = of_row * y_.stride() * sizeof(T);
    if (bytes > other_targets_.size()) other_targets_ = Buffer(bytes);
    rows = TensorView<T>(reinterpret_cast<T*>(other_targets_.data()), y_.samples(), of_row,
                         y_.stride());
  }
  kernels::samples_to_rows<T>({.samples = targets.samples(),
                               .positions = layout.positions,
                               .features = of_row,
                               .row_stride = rows.stride(),
                               .sample_stride = targets.stride()},
                              targets.data(), rows.data());
  targets_ = rows;
}

template <class T>
std::span<const T> Workspace<T>::weights() {
  const std::span<T> weights(weights_.data(), y_.samples());
  if (mask_ != nullptr)
    std::copy_n(mask_, weights.size(), weights.begin());
  else
    std::fill(weights.begin(), weights.end(), T(1));
  const bool ignores = has_targets_ && program_.ignore(targets_, weights);
  return mask_ != nullptr || ignores ? weights : std::span<const T>();
}

template <class T>
std::span<const T> Workspace<T>::sample_weights(std::span<const T> counted,
                                                std::span<const double> class_weight) {
  if (batch_weights_.empty() && class_weight.empty()) return {};
  const std::size_t positions = program_.layout().positions;
  const std::span<T> weights(sample_weights_.data(), y_.samples());
  for (std::size_t row = 0; row < weights.size(); ++row) {
    T weight = counted.empty() ? T(1) : counted[row];
    if (!batch_weights_.empty())
      weight *=
          batch_weights_(row / positions, batch_weights_.features() == 1 ? 0 : row % positions);
    if (!class_weight.empty()) weight *= class_factor(row, class_weight);
    weights[row] = counted.empty() || counted[row] != T(0) ? weight : T(0);
  }
  return weights;
}

template <class T>
T Workspace<T>::class_factor(std::size_t row, std::span<const double> class_weight) const {
  if (targets_.features() == 0) return T(1);
  T label = targets_(row, 0);
  if (targets_.features() > 1) {
    std::size_t largest = 0;
    for (std::size_t f = 1; f < targets_.features(); ++f)
      if (targets_(row, f) > targets_(row, largest)) largest = f;
    label = static_cast<T>(largest);
  }
  const T rounded = std::round(label);
  const bool is_listed = rounded >= T(0) && rounded < static_cast<T>(class_weight.size());
  return is_listed ? static_cast<T>(class_weight[static_cast<std::size_t>(rounded)]) : T(1);
}

template <class T>
void Workspace<T>::forward(const StepContext& context, Slices<T> weights) {
  mask_ = nullptr;
  program_.forward({.context = context,
                    .weights = weights,
                    .state = state_.slices(),
                    .x = x_,
                    .y = y_,
                    .scratch = scratch_,
                    .mask_of_y = &mask_,
                    .temporary = temporary_});
}

template <class T>
void Workspace<T>::each_output(typename Program<T>::EachOutput f) const {
  const StepContext context;
  program_.each_output({.context = context,
                        .weights = {},
                        .state = {},
                        .x = x_,
                        .y = y_,
                        .scratch = scratch_,
                        .temporary = temporary_},
                       f);
}

template <class T>
BackwardPass<T> Workspace<T>::backward_pass(const StepContext& context, Slices<T> weights) {
  return {.context = context,
          .weights = weights,
          .state = state_.slices(),
          .x = x_,
          .y = y_,
          .dy = dy_,
          .dx = {},
          .gradients = gradients_.slices(),
          .scratch = scratch_,
          .temporary = temporary_};
}

LOCKSTEP_INSTANCE(class Workspace<LOCKSTEP_REAL>);
}}}  // namespace lockstep::detail
