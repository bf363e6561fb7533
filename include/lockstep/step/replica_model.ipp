#pragma once

#include <string>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/replica_model.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class T>
ReplicaModel<T>::ReplicaModel(const detail::Parts<T>& parts,
                              std::unique_ptr<detail::Updater<T>> updater, ToInput to_input)
    : parts_(parts),
      updater_(std::move(updater)),
      to_input_(to_input),
      own_loss_{parts.program},
      sums_(parts.program.layout().metric_state) {}

template <class T>
ReplicaModel<T>::~ReplicaModel() = default;

template <class T>
void ReplicaModel<T>::refresh() noexcept {
  // Not at each call: while ranks are between two updates, only the first replica's thread may
  // look.
  if (revision_ == parts_.variables.revision) return;
  revision_ = parts_.variables.revision;
  step_.iteration = parts_.variables.iterations;
  step_.accumulated = parts_.variables.accumulated_steps;
  shows_averages_ = parts_.variables.shows_averages();
  can_apply_ = false;
}

template <class T>
BatchViews<T> ReplicaModel<T>::room(std::size_t samples) {
  can_apply_ = false;
  parts_.workspace.resize(samples);
  return parts_.workspace.batch();
}

template <class T>
void ReplicaModel<T>::check(const ReplicaBatch<T>& batch) const {
  const auto& layout = parts_.program.layout();
  const auto refuse = [](const char* what, std::size_t expected, std::size_t got) {
    throw DataError(
        concat({"a step of the program's own: the batch has ", got, " ", what, ", the model takes ",
                expected, ": look at what the batch was made of"}));
  };
  if (batch.x.features() != layout.inputs)
    refuse("numbers a sample", layout.inputs, batch.x.features());
  const std::size_t targets = layout.targets * layout.positions;
  if (batch.targets.features() == 0) return;
  if (batch.weight_size > 1 && batch.weight_size != layout.positions)
    refuse("weights a sample", layout.positions, batch.weight_size);
  if (batch.targets.features() != targets + batch.weight_size)
    refuse("target values a sample", targets + batch.weight_size, batch.targets.features());
  if (batch.targets.samples() != batch.x.samples())
    refuse("rows of targets", batch.x.samples(), batch.targets.samples());
}

template <class T>
std::span<const std::int64_t> ReplicaModel<T>::indices_of(const ReplicaBatch<T>& batch) {
  const std::size_t samples = batch.x.samples();
  if (samples > 0 && batch.sample_indices.size() == samples) return batch.sample_indices;
  if (!batch.sample_indices.empty())
    throw DataError(
        concat({"a step of the program's own: the batch has ", samples, " samples and ",
                batch.sample_indices.size(), " sample_indices: give as many, or none"}));
  const int ranks = parts_.replica.collective().size();
  for (std::size_t i = indices_.size(); i < samples; ++i)
    indices_.push_back(static_cast<std::int64_t>(i) * ranks + parts_.replica.collective().rank());
  return std::span(indices_).first(samples);
}

template <class T>
TensorView<const T> ReplicaModel<T>::forward(const ReplicaBatch<T>& batch, bool training) {
  check(batch);
  auto& workspace = parts_.workspace;
  can_apply_ = false;
  workspace.undo_step();  // one that was not applied
  if (training) workspace.begin_step();
  workspace.resize(batch.x.samples());
  const std::span<const std::int64_t> indices = indices_of(batch);
  context_ = detail::step_context(parts_, indices, training ? &step_ : nullptr);
  workspace.use(batch.x, batch.targets);
  detail::forward_rows(parts_, context_, [&](std::size_t row) {
    return concat({"sample ", indices[row]});
  });
  return workspace.predictions();
}

template <class T>
void ReplicaModel<T>::begin(const ReplicaBatch<T>& batch, Compute compute) {
  if (std::exchange(shows_averages_, false)) {  // an update is one of the weights themselves
    parts_.replica.team_barrier();
    if (parts_.replica.local_rank() == 0) parts_.variables.swap_averages();
    parts_.replica.team_barrier();
  }
  forward(batch, true);
  auto& workspace = parts_.workspace;
  workspace.status().clear();
  detail::record<T>(
      parts_,
      [&](std::size_t row) {
        return concat({"sample ", context_.sample_indices[row]});
      },
      compute, workspace.prediction_gradient(), workspace.status());
}

template <class T>
Gradients<T> ReplicaModel<T>::gradients_of(const ReplicaBatch<T>& batch, Compute compute) {
  begin(batch, compute);
  detail::differentiate(parts_, context_);
  can_apply_ = true;
  const auto& workspace = parts_.workspace;
  return {.variables = workspace.gradients().slices(),
          .loss_sum = workspace.status()[detail::StatusBlock::loss_sum],
          .rows = workspace.status()[detail::StatusBlock::rows]};
}

template <class T>
void ReplicaModel<T>::apply(const Gradients<T>& gradients) {
  if (!can_apply_ || gradients.variables.data() != parts_.workspace.gradients().slices().data())
    throw Error(
        "apply: these are not the gradients that this model gave last on this replica: call "
        "gradients(), and apply "
        "what it gives before any other call");
  const bool leader = parts_.replica.local_rank() == 0;
  const ActivityScope activity(leader ? activity_board(parts_.replica.collective()) : nullptr,
                               {.call = "apply", .step = step_.iteration});
  updated(detail::update_after_backward(parts_, *updater_, step_));
}

template <class T>
void ReplicaModel<T>::minimize_loss(const ReplicaBatch<T>& batch, Compute compute) {
  const bool leader = parts_.replica.local_rank() == 0;
  const ActivityScope activity(leader ? activity_board(parts_.replica.collective()) : nullptr,
                               {.call = "minimize", .step = step_.iteration});
  begin(batch, compute);
  updated(detail::update_during_backward(parts_, *updater_, context_, step_));
}

template <class T>
void ReplicaModel<T>::updated(bool has_updated) {
  can_apply_ = false;
  if (++step_.accumulated < parts_.variables.accumulation_steps()) {
    updater_->carry(step_.accumulated);  // the program may save the model after any step
  } else {
    step_.accumulated = 0;
    ++step_.iteration;
    if (parts_.replica.local_rank() == 0)
      parts_.variables.complete_update(step_.iteration, has_updated);
  }
  sums_.accumulate(parts_.workspace.status());
}

template <class T>
void ReplicaModel<T>::input_gradient_of(const ReplicaBatch<T>& batch, Compute compute,
                                        std::span<double> losses, TensorView<T> gradient) {
  forward(batch, true);
  auto& workspace = parts_.workspace;
  const auto refuse = [](const char* what, std::size_t expected, std::size_t got) {
    throw DataError(
        concat({"input_gradient: ", what, " has ", got, " elements, expected ", expected}));
  };
  if (losses.size() != workspace.losses().size())
    refuse("losses", workspace.losses().size(), losses.size());
  if (gradient.samples() != batch.x.samples() || gradient.features() != batch.x.features() ||
      gradient.stride() != batch.x.stride())
    refuse("gradient", batch.x.samples() * batch.x.features(),
           gradient.samples() * gradient.features());
  compute(workspace.predictions(), workspace.targets(), losses, workspace.prediction_gradient());
  workspace.activity_penalty.scale = 0;  // penalties are for the one whose parameters are trained
  BackwardPass<T> pass = workspace.backward_pass(context_, parts_.variables.parameters().slices());
  pass.dx = gradient;
  to_input_(pass);
  workspace.undo_step();
}

template <class T>
Logs ReplicaModel<T>::logs() const {
  Logs logs;
  detail::report(parts_.program, sums_, logs);
  return logs;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
