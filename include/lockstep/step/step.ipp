#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/step/non_finite.hpp"
#include "lockstep/step/step.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Sums over the replica's collective.
inline CrossReplicaSum cross_replica_sum(AnyReplica& replica) {
  return {&replica, [](void* self, std::span<double> values) {
            static_cast<AnyReplica*>(self)->collective().all_reduce(values, ReduceOp::sum);
          }};
}

/// What the board shows, with "reading data" as the part.
inline Activity reading_data(ActivityBoard* board) {
  Activity activity;
  if (board != nullptr) activity = board->get();
  activity.part = "reading data";
  return activity;
}

/// Each row of the gradient times its weight. (0, also where the gradient of a row that does not
/// count is NaN.)
template <class T>
void weigh(TensorView<T> gradient, std::span<const T> weights) {
  for (std::size_t f = 0; f < gradient.features(); ++f) {
    T* const g = gradient.feature(f);
    for (std::size_t row = 0; row < weights.size(); ++row)
      g[row] = weights[row] == T(0) ? T(0) : weights[row] * g[row];
  }
}

template <class T>
void multiply(std::span<T> values, double factor) {
  const T by = static_cast<T>(factor);
  kernels::sweep(
      values.size(), [=](auto& value) LOCKSTEP_KERNEL_LAMBDA { value *= by; }, values.data());
}

/// Calls f, which works on the current batch. If it cannot use a sample, the error names that.
template <class F>
void naming_samples(SampleName name, std::size_t rows_of_sample, const F& f) {
  try {
    f();
  } catch (const BadSample& bad) {
    throw bad.of_sample(name(bad.row() / rows_of_sample));
  }
}

/// What the penalties of variables add to the sum of the losses of these rows.
template <class T>
double penalty_of_variables(const Parts<T>& parts, double rows) {
  return rows > 0 ? rows * parts.workspace.regularization.penalty(parts.variables.parameters()) : 0;
}

/// The factor by which backward multiplies the gradient of the penalty of outputs, which is a mean
/// over samples, while the update divides by the rows that count. Samples may differ in their
/// number of rows; the mean over all ranks does not depend on how samples are spread.
template <class T>
double rows_per_sample(const Parts<T>& parts, const StepContext& context, double rows) {
  std::array<double, 2> sums{rows, static_cast<double>(parts.workspace.x().samples())};
  context.cross_replica_sum(sums);
  return sums[1] > 0 ? sums[0] / sums[1] : 0;
}

template <class T>
void record(const Parts<T>& parts, const StepContext& context, SampleName name,
            ComputeLoss<T> compute, TensorView<T> gradient, StatusBlock& status,
            std::span<const double> class_weight, double loss_scale) {
  Workspace<T>& workspace = parts.workspace;
  const std::span<double> losses = workspace.losses();
  naming_samples(name, parts.program.layout().positions,
                 [&] { compute(workspace.predictions(), workspace.targets(), losses, gradient); });
  const std::span<const T> weights = workspace.weights();
  const std::span<const T> own = workspace.sample_weights(weights, class_weight);
  const std::span<const T> sample_weights = own.empty() ? weights : own;
  double sum = 0, rows = 0;
  for (std::size_t row = 0; row < losses.size(); ++row) {
    if (!weights.empty() && weights[row] == T(0)) continue;
    rows += 1;
    if (own.empty())
      sum += losses[row];
    else if (own[row] != T(0))
      sum += static_cast<double>(own[row]) * losses[row];
  }
  sum += penalty_of_variables(parts, rows);
  workspace.gradient_divisor =
      context.training && parts.variables.scales_loss()
          ? static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(rows)))
          : 1;
  const double factor = loss_scale / workspace.gradient_divisor;
  ActivityPenalty& of_outputs = workspace.activity_penalty;
  if (context.training && of_outputs.is_wanted)
    of_outputs.scale = factor * rows_per_sample(parts, context, rows);
  if (!gradient.empty()) weigh(gradient, sample_weights);
  if (factor != 1)
    multiply(std::span<T>(gradient.data(), gradient.features() * gradient.stride()), factor);
  status[StatusBlock::samples] += static_cast<double>(workspace.x().samples());
  status[StatusBlock::rows] += rows;
  status[StatusBlock::loss_sum] += sum;
  status[StatusBlock::penalty_sum] += of_outputs.sum;
  if (!std::isfinite(sum + of_outputs.sum)) status[StatusBlock::non_finite] += 1;
  if (workspace.has_targets())
    naming_samples(name, parts.program.layout().positions, [&] {
      parts.program.update_metrics(workspace.predictions(), workspace.targets(), weights,
                                   sample_weights, status.metrics());
    });
}

/// As above, with the loss of the program.
template <class T>
void record(const Parts<T>& parts, const StepContext& context, const BatchLoader<T>& data,
            TensorView<T> gradient, StatusBlock& status, std::span<const double> class_weight = {},
            double loss_scale = 1) {
  record<T>(
      parts, context, [&](std::size_t row) { return data.sample_name(row); },
      [&](TensorView<const T> predictions, TensorView<const T> targets, std::span<double> losses,
          TensorView<T> g) { parts.program.compute_loss(predictions, targets, losses, g); },
      gradient, status, class_weight, loss_scale);
}

template <class T>
void report(const Program<T>& program, const StatusBlock& status, Logs& logs,
            const std::string& prefix) {
  const auto mean = [&](StatusBlock::Field sum, StatusBlock::Field count) {
    return status[count] > 0 ? status[sum] / status[count] : 0.0;
  };
  logs.set(prefix + "loss", mean(StatusBlock::loss_sum, StatusBlock::rows) +
                                mean(StatusBlock::penalty_sum, StatusBlock::samples));
  program.report_metrics(status.metrics(), logs, prefix);
}

template <class T>
bool is_last_of_window(const Parts<T>& parts, const TrainStep& step) {
  return step.accumulated + 1 >= parts.variables.accumulation_steps();
}

/// The number of this step among all training steps, for random numbers.
template <class T>
std::int64_t step_number(const Parts<T>& parts, const TrainStep& step) {
  return step.iteration * parts.variables.accumulation_steps() + step.accumulated;
}

template <class T>
StepContext step_context(const Parts<T>& parts, std::span<const std::int64_t> sample_indices,
                         const TrainStep* step, MomentSink moments) {
  return {.training = step != nullptr,
          .step = step != nullptr ? step_number(parts, *step) : 0,
          .seed = parts.variables.seed,
          .sample_indices = sample_indices,
          .cross_replica_sum = step != nullptr && !parts.variables.is_in_rounds()
                                   ? cross_replica_sum(parts.replica)
                                   : CrossReplicaSum{},
          .activity_penalty = &(parts.workspace.activity_penalty = {}),
          .moments = moments,
          .trace = step != nullptr ? step->trace : nullptr};
}

template <class T>
void forward_rows(const Parts<T>& parts, const StepContext& context, SampleName name) {
  naming_samples(name, 1,
                 [&] { parts.workspace.forward(context, parts.variables.parameters().slices()); });
}

template <class T>
StepContext forward_batch(const Parts<T>& parts, BatchLoader<T>& data, bool has_batch,
                          const TrainStep* step, MomentSink moments) {
  Workspace<T>& workspace = parts.workspace;
  workspace.resize(has_batch ? data.samples() : 0, data.weight_size());
  StepContext context = step_context(
      parts, has_batch ? data.sample_indices() : std::span<const std::int64_t>{}, step, moments);
  if (has_batch) {
    const TraceSpan span(context.trace, TracePart::input);
    ActivityBoard* const board = step != nullptr ? step->board : nullptr;
    const ActivityScope activity(board, reading_data(board));
    workspace.use(data.load(workspace.batch()));
  }
  forward_rows(parts, context, [&](std::size_t row) { return data.sample_name(row); });
  return context;
}

/// Follows backward through the gradient arena: completes gradients, and tells an Updater.
template <class T>
struct ProgressToUpdater {
  const Parts<T>& parts;
  Updater<T>& updater;
  std::size_t completed = 0;

  /// The first `count` gradients are those of the loss, but for the divisor.
  void complete(std::size_t count) {
    if (const double divisor = parts.workspace.gradient_divisor; divisor != 1)
      multiply(parts.workspace.gradients().values().subspan(completed, count - completed), divisor);
    completed = count;
    parts.workspace.regularization.add_gradients(parts.variables.parameters(),
                                                 parts.workspace.gradients(), count);
  }

  [[nodiscard]] BackwardProgress hook() noexcept {
    return {this, [](void* self, const void* end) {
              auto& progress = *static_cast<ProgressToUpdater*>(self);
              const T* const begin = progress.parts.workspace.gradients().values().data();
              const auto count = static_cast<std::size_t>(static_cast<const T*>(end) - begin);
              progress.complete(count);
              progress.updater.ready(count);
            }};
  }
};

/// After an update: the replicas of a process share the work, unless each has its own parameters.
template <class T>
void constrain(const Parts<T>& parts, const TrainStep& step) {
  Workspace<T>& workspace = parts.workspace;
  if (workspace.constraints.empty()) return;
  const TraceSpan span(step.trace, TracePart::optimizer);
  if (parts.variables.is_in_rounds())
    return workspace.constraints.apply(parts.variables.parameters().slices(), 0, 1);
  workspace.constraints.apply(parts.variables.parameters().slices(),
                              static_cast<std::size_t>(parts.replica.local_rank()),
                              static_cast<std::size_t>(parts.replica.local_size()));
  parts.replica.team_barrier();
}

template <class T>
void end_step(const Parts<T>& parts, const TrainStep& step, bool has_updated) {
  if (has_updated) constrain(parts, step);
  const StatusBlock& status = parts.workspace.status();
  if (status.has_overflowed() || (step.stop_on_non_finite && status[StatusBlock::non_finite] > 0))
    parts.workspace.undo_step();
  else if (is_last_of_window(parts, step))
    parts.workspace.end_step();
}

template <class T>
UpdateStep update_step(const Parts<T>& parts, const TrainStep& step, bool has_batch = true) {
  return {.iteration = step.iteration + 1,
          .stop_on_non_finite = step.stop_on_non_finite,
          .trace = step.trace,
          .is_first = step.accumulated == 0,
          .is_last = is_last_of_window(parts, step),
          .has_batch = has_batch,
          .ends_epoch = step.ends_epoch || parts.workspace.status()[StatusBlock::has_next] == 0,
          .loss_scale = step.loss_scale};
}

template <class T>
bool update_during_backward(const Parts<T>& parts, Updater<T>& updater, StepContext context,
                            const TrainStep& step, bool has_batch) {
  Workspace<T>& workspace = parts.workspace;
  using Progress = typename Updater<T>::Progress;
  const Progress wanted = updater.begin(update_step(parts, step, has_batch));
  workspace.regularization.begin_step(workspace.status()[StatusBlock::rows] * step.loss_scale);
  ProgressToUpdater<T> progress{parts, updater};
  if (wanted == Progress::gradients) context.gradients_ready = progress.hook();
  if (wanted == Progress::variables) context.variables_done = progress.hook();
  workspace.backward(context, parts.variables.parameters().slices());
  if (updater.reads_gradients() || !workspace.regularization.empty()) parts.program.synchronize();
  progress.complete(workspace.gradients().values().size());
  const bool has_updated = updater.finish();
  end_step(parts, step, has_updated);
  return has_updated;
}

template <class T>
void differentiate(const Parts<T>& parts, const StepContext& context, double loss_scale) {
  Workspace<T>& workspace = parts.workspace;
  workspace.regularization.begin_step(workspace.status()[StatusBlock::rows]);
  workspace.backward(context, parts.variables.parameters().slices());
  parts.program.synchronize();
  if (const double factor = workspace.gradient_divisor / loss_scale; factor != 1)
    multiply(workspace.gradients().values(), factor);
  workspace.regularization.add_gradients(parts.variables.parameters(), workspace.gradients(),
                                         workspace.gradients().values().size());
}

template <class T>
bool update_after_backward(const Parts<T>& parts, Updater<T>& updater, const TrainStep& step) {
  UpdateStep update = update_step(parts, step);
  update.loss_scale = 1;  // see differentiate
  updater.begin(update);
  const bool has_updated = updater.finish();
  end_step(parts, step, has_updated);
  return has_updated;
}

template <class T>
bool train_step(const Parts<T>& parts, Updater<T>& updater, BatchLoader<T>& data,
                const TrainStep& step) {
  Workspace<T>& workspace = parts.workspace;
  const bool has_batch = [&] {
    const TraceSpan span(step.trace, TracePart::input);
    const ActivityScope activity(step.board, reading_data(step.board));
    return data.next();
  }();
  workspace.begin_step(step.continues);
  const StepContext context = forward_batch(parts, data, has_batch, &step);
  StatusBlock& status = workspace.status();
  status.clear();
  {
    const TraceSpan span(step.trace, TracePart::loss);
    record(parts, context, data, workspace.prediction_gradient(), status, step.class_weight,
           step.loss_scale);
    if (status[StatusBlock::non_finite] > 0 && workspace.non_finite.source.empty())
      workspace.non_finite.source = find_non_finite(parts, context);
  }
  status[StatusBlock::has_next] =
      data.has_next() ? 1 : 0;  // (throws before a parameter changes, if at all)
  status.ask(step.requests);
  return update_during_backward(parts, updater, context, step, has_batch);
}

template <class T>
void test_step(const Parts<T>& parts, BatchLoader<T>& data, StatusBlock& status) {
  const StepContext context = forward_batch(parts, data, true);
  record(parts, context, data, TensorView<T>(), status);
}

LOCKSTEP_INSTANCE(bool train_step(const Parts<LOCKSTEP_REAL>&, Updater<LOCKSTEP_REAL>&,
                                  BatchLoader<LOCKSTEP_REAL>&, const TrainStep&));
LOCKSTEP_INSTANCE(void test_step(const Parts<LOCKSTEP_REAL>&, BatchLoader<LOCKSTEP_REAL>&,
                                 StatusBlock&));
LOCKSTEP_INSTANCE(StepContext forward_batch(const Parts<LOCKSTEP_REAL>&,
                                            BatchLoader<LOCKSTEP_REAL>&, bool, const TrainStep*,
                                            MomentSink));
LOCKSTEP_INSTANCE(void report(const Program<LOCKSTEP_REAL>&, const StatusBlock&, Logs&,
                              const std::string&));
}}}  // namespace lockstep::detail
