#pragma once

#include <algorithm>
#include <string>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/replica_model.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

template <class T>
struct ReplicaModel<T>::State {
  /// The loss of the program, as a function.
  struct OwnLoss {
    const detail::Program<T>& program;
    void operator()(TensorView<const T> predictions, TensorView<const T> targets,
                    std::span<double> losses, TensorView<T> gradient) const {
      program.compute_loss(predictions, targets, losses, gradient);
    }
  };

  detail::Parts<T> parts;
  std::unique_ptr<detail::Updater<T>> updater;
  ToInput to_input;
  OwnLoss loss_of_compile{parts.program};
  StepContext context{};
  detail::TrainStep step{};
  detail::LossScale loss_scale{};
  std::int64_t revision = -1;
  bool can_apply = false;
  bool shows_averages = false;  ///< instead of the weights, since they were loaded
  detail::StatusBlock sums{parts.program.layout().metric_state};
  detail::StatusBlock evaluated{parts.program.layout().metric_state};
  Buffer gradient_memory{};
  std::vector<double> input_losses{};
  std::vector<std::int64_t> indices{};
};

template <class T>
ReplicaModel<T>::ReplicaModel(const detail::Parts<T>& parts,
                              std::unique_ptr<detail::Updater<T>> updater, ToInput to_input)
    : state_(new State{.parts = parts, .updater = std::move(updater), .to_input = to_input}) {}

template <class T>
ReplicaModel<T>::~ReplicaModel() = default;

template <class T>
void ReplicaModel<T>::refresh() noexcept {
  // Only when the revision changes: while ranks are between two updates, only the first replica's
  // thread may read the rest.
  if (state_->revision == state_->parts.variables.revision) return;
  state_->revision = state_->parts.variables.revision;
  state_->step.iteration = state_->parts.variables.iterations;
  state_->step.accumulated = state_->parts.variables.accumulated_steps;
  state_->loss_scale = state_->parts.variables.loss_scale;
  state_->step.loss_scale = state_->loss_scale.value;
  state_->shows_averages = state_->parts.variables.shows_averages();
  state_->can_apply = false;
}

template <class T>
BatchViews<T> ReplicaModel<T>::room(std::size_t samples) {
  state_->can_apply = false;
  state_->parts.workspace.resize(samples);
  return state_->parts.workspace.batch();
}

template <class T>
void ReplicaModel<T>::check(const ReplicaBatch<T>& batch) const {
  const auto& layout = state_->parts.program.layout();
  const auto refuse = [](const char* what, std::size_t expected, std::size_t got) {
    throw DataError(concat({"custom loop: the batch has ", got, " ", what, ", the model takes ",
                            expected, ": look at what the batch was made of"}));
  };
  if (batch.x.features() != layout.inputs)
    refuse("numbers a sample", layout.inputs, batch.x.features());
  if (batch.targets.features() == 0) return;
  if ((batch.weight_size > 1 && batch.weight_size != layout.positions) ||
      batch.weight_size > batch.targets.features())
    refuse("weights a sample", layout.positions, batch.weight_size);
  if (batch.targets.samples() != batch.x.samples())
    refuse("rows of targets", batch.x.samples(), batch.targets.samples());
}

/// The loss of the step decides, whatever compile was given.
template <class T>
void ReplicaModel<T>::check_targets(const ReplicaBatch<T>& batch, const StepLoss& loss) const {
  const std::size_t positions = state_->parts.program.layout().positions;
  const std::size_t got = std::max(batch.targets.features(), batch.weight_size);
  const std::size_t values = got - batch.weight_size;
  if (loss.targets ? values == *loss.targets * positions : values % positions == 0) return;
  throw DataError(concat(
      {"custom loop: the batch has ", values, " target values a sample, the loss ",
       loss.targets ? concat({"takes ", *loss.targets * positions})
                    : concat({"is for ", positions, " positions, and takes as many for each"}),
       ": look at what the batch was made of, or give the step the loss that is meant"}));
}

template <class T>
std::size_t ReplicaModel<T>::outputs() const noexcept {
  return state_->parts.program.layout().outputs;
}

template <class T>
typename ReplicaModel<T>::StepLoss ReplicaModel<T>::own_loss() const {
  const std::size_t targets = state_->parts.program.layout().targets;
  return {Compute(state_->loss_of_compile), targets > 0 ? std::optional(targets) : std::nullopt};
}

template <class T>
void ReplicaModel<T>::check_optimizer(const char* call) const {
  if (!state_->parts.program.layout().has_optimizer)
    throw ConfigurationError(
        concat({call, ": the model was compiled without an optimizer: give compile one"}));
}

template <class T>
std::span<const std::int64_t> ReplicaModel<T>::indices_of(const ReplicaBatch<T>& batch) {
  const std::size_t samples = batch.x.samples();
  if (samples > 0 && batch.sample_indices.size() == samples) return batch.sample_indices;
  if (!batch.sample_indices.empty())
    throw DataError(
        concat({"custom loop: the batch has ", samples, " samples and ",
                batch.sample_indices.size(), " sample_indices: give as many, or none"}));
  const int ranks = state_->parts.replica.collective().size();
  for (std::size_t i = state_->indices.size(); i < samples; ++i)
    state_->indices.push_back(static_cast<std::int64_t>(i) * ranks +
                              state_->parts.replica.collective().rank());
  return std::span(state_->indices).first(samples);
}

template <class T>
TensorView<const T> ReplicaModel<T>::forward(const ReplicaBatch<T>& batch, bool training) {
  check(batch);
  auto& workspace = state_->parts.workspace;
  state_->can_apply = false;
  workspace.undo_step();  // one that was not applied
  if (training) workspace.begin_step();
  workspace.resize(batch.x.samples());
  const std::span<const std::int64_t> indices = indices_of(batch);
  state_->context =
      detail::step_context(state_->parts, indices, training ? &state_->step : nullptr);
  workspace.use(batch.x, batch.targets, batch.weight_size);
  detail::forward_rows(state_->parts, state_->context, [&](std::size_t row) {
    return concat({"sample ", indices[row]});
  });
  return workspace.predictions();
}

template <class T>
void ReplicaModel<T>::begin(const ReplicaBatch<T>& batch, const StepLoss& loss) {
  check_targets(batch, loss);
  if (std::exchange(state_->shows_averages, false)) {  // an update is one of the weights themselves
    state_->parts.replica.team_barrier();
    if (state_->parts.replica.local_rank() == 0) state_->parts.variables.swap_averages();
    state_->parts.replica.team_barrier();
  }
  forward(batch, true);
  auto& workspace = state_->parts.workspace;
  workspace.status().clear();
  detail::record<T>(
      state_->parts, state_->context,
      [&](std::size_t row) {
        return concat({"sample ", state_->context.sample_indices[row]});
      },
      loss.compute, workspace.prediction_gradient(), workspace.status(), {},
      state_->step.loss_scale);
}

template <class T>
void ReplicaModel<T>::evaluate_loss(const ReplicaBatch<T>& batch, const StepLoss& loss) {
  check_targets(batch, loss);
  forward(batch, false);
  detail::record<T>(
      state_->parts, state_->context,
      [&](std::size_t row) {
        return concat({"sample ", state_->context.sample_indices[row]});
      },
      loss.compute, state_->parts.workspace.prediction_gradient(), state_->evaluated);
}

template <class T>
void ReplicaModel<T>::evaluate(const ReplicaBatch<T>& batch) {
  evaluate_loss(batch, own_loss());
}

template <class T>
Logs ReplicaModel<T>::evaluation() {
  const ActivityScope activity(state_->parts.replica.board(), {.call = "evaluation"});
  state_->parts.replica.collective().all_reduce(state_->evaluated.values(), ReduceOp::sum);
  Logs logs;
  detail::report(state_->parts.program, state_->evaluated, logs);
  state_->evaluated.clear();
  return logs;
}

template <class T>
Gradients<T> ReplicaModel<T>::gradients_of(const ReplicaBatch<T>& batch, const StepLoss& loss) {
  begin(batch, loss);
  detail::differentiate(state_->parts, state_->context, state_->step.loss_scale);
  state_->can_apply = true;
  const auto& workspace = state_->parts.workspace;
  return {.variables = workspace.gradients().slices(),
          .loss_sum = workspace.status()[detail::StatusBlock::loss_sum] +
                      workspace.activity_penalty.scale * workspace.gradient_divisor /
                          state_->step.loss_scale * workspace.activity_penalty.sum,
          .rows = workspace.status()[detail::StatusBlock::rows]};
}

template <class T>
Gradients<T> ReplicaModel<T>::gradients(const ReplicaBatch<T>& batch) {
  return gradients_of(batch, own_loss());
}

template <class T>
void ReplicaModel<T>::minimize(const ReplicaBatch<T>& batch) {
  minimize_loss(batch, own_loss());
}

template <class T>
void ReplicaModel<T>::reset_logs() noexcept {
  state_->sums.clear();
}

template <class T>
void ReplicaModel<T>::apply(const Gradients<T>& gradients) {
  check_optimizer("apply");
  if (!state_->can_apply ||
      gradients.variables.data() != state_->parts.workspace.gradients().slices().data())
    throw Error(
        "apply: these are not the gradients that this model gave last on this replica: call "
        "gradients(), and apply "
        "what it gives before any other call");
  const ActivityScope activity(state_->parts.replica.board(),
                               {.call = "apply", .step = state_->step.iteration});
  updated(detail::update_after_backward(state_->parts, *state_->updater, state_->step));
}

template <class T>
void ReplicaModel<T>::minimize_loss(const ReplicaBatch<T>& batch, const StepLoss& loss) {
  check_optimizer("minimize");
  const ActivityScope activity(state_->parts.replica.board(),
                               {.call = "minimize", .step = state_->step.iteration});
  begin(batch, loss);
  updated(detail::update_during_backward(state_->parts, *state_->updater, state_->context,
                                         state_->step));
}

template <class T>
void ReplicaModel<T>::updated(bool has_updated) {
  state_->can_apply = false;
  if (++state_->step.accumulated < state_->parts.variables.accumulation_steps()) {
    state_->updater->carry(
        state_->step.accumulated);  // the program may save the model after any step
  } else {
    state_->step.accumulated = 0;
    const bool has_overflowed = state_->parts.workspace.status().has_overflowed();
    state_->step.iteration += has_overflowed ? 0 : 1;
    state_->parts.variables.advance(state_->loss_scale, has_overflowed);
    state_->step.loss_scale = state_->loss_scale.value;
    if (state_->parts.replica.local_rank() == 0)
      state_->parts.variables.complete_update(state_->step.iteration, has_updated, has_overflowed);
  }
  state_->sums.accumulate(state_->parts.workspace.status());
}

template <class T>
InputGradient<T> ReplicaModel<T>::own_input_gradient(const ReplicaBatch<T>& batch,
                                                     const StepLoss& loss) {
  const std::size_t bytes = batch.x.features() * batch.x.stride() * sizeof(T);
  if (bytes > state_->gradient_memory.size()) state_->gradient_memory = Buffer(bytes);
  const TensorView<T> gradient(reinterpret_cast<T*>(state_->gradient_memory.data()),
                               batch.x.samples(), batch.x.features(), batch.x.stride());
  state_->input_losses.resize(batch.x.samples() * state_->parts.program.layout().positions);
  input_gradient_of(batch, loss, state_->input_losses, gradient);
  return {.losses = state_->input_losses, .gradient = gradient};
}

template <class T>
void ReplicaModel<T>::input_gradient_of(const ReplicaBatch<T>& batch, const StepLoss& loss,
                                        std::span<double> losses, TensorView<T> gradient) {
  check_targets(batch, loss);
  forward(batch, true);
  auto& workspace = state_->parts.workspace;
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
  loss.compute(workspace.predictions(), workspace.targets(), losses,
               workspace.prediction_gradient());
  workspace.activity_penalty.scale = 0;  // penalties are for the one whose parameters are trained
  BackwardPass<T> pass =
      workspace.backward_pass(state_->context, state_->parts.variables.parameters().slices());
  pass.dx = gradient;
  state_->to_input(pass);
  workspace.undo_step();
}

template <class T>
Logs ReplicaModel<T>::logs() const {
  Logs logs;
  detail::report(state_->parts.program, state_->sums, logs);
  return logs;
}

LOCKSTEP_INSTANCE(class ReplicaModel<LOCKSTEP_REAL>);
}}  // namespace lockstep
