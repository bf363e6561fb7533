// One step of a replica.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// While it lives, the collective keeps the rounding errors of a replica's gradients in the
/// residuals of its workspace, where it has some, and adds them in the next reduction.
template <class T>
class ResidualScope {
 public:
  explicit ResidualScope(const Parts<T>& parts) : parts_(parts) { set(residuals()); }
  ResidualScope(const ResidualScope&) = delete;
  ResidualScope& operator=(const ResidualScope&) = delete;
  /// After an exception an operation may still be under way, and none follows.
  ~ResidualScope() {
    if (std::uncaught_exceptions() == exceptions_) set({});
  }

 private:
  [[nodiscard]] std::span<T> residuals() const { return parts_.workspace.residuals().values(); }
  void set(std::span<T> residuals) const {
    if constexpr (std::same_as<T, float>)
      if (!this->residuals().empty())
        parts_.replica.collective().keep_residuals(parts_.workspace.gradients().values(),
                                                   residuals);
  }

  const Parts<T> parts_;
  const int exceptions_ = std::uncaught_exceptions();
};

/// What a training step is told.
struct TrainStep {
  std::int64_t iteration = 0;    ///< updates made before
  std::int64_t accumulated = 0;  ///< earlier steps that wait for the same update
  double loss_scale = 1;         ///< the gradient of the loss is multiplied by it
  bool continues = false;        ///< they have not been carried all (see Updater::carry)
  bool ends_epoch = false;       ///< see UpdateStep; a step without a next batch does anyway
  Requests requests = {};        ///< of this rank
  bool stop_on_non_finite = false;
  std::span<const double> class_weight = {};  ///< of class 0, 1, ...; see Workspace::sample_weights
  Trace* trace = nullptr;                     ///< records the time
  ActivityBoard* board = nullptr;             ///< shows that data are being read
};

/// Writes the loss of each row and its gradient, unless that is empty, as Loss does.
template <class T>
using ComputeLoss = FunctionRef<void(TensorView<const T> predictions, TensorView<const T> targets,
                                     std::span<double> losses, TensorView<T> gradient)>;

/// Names the sample in a row of the batch, for messages.
using SampleName = FunctionRef<std::string(std::size_t row)>;

/// One training step: runs this rank's part of the next global batch forward and backward, and lets
/// the updater use the gradients. Leaves the reduced status, equal on all ranks, in the workspace.
/// Changes nothing when it counts no samples, or, with stop_on_non_finite, when a loss is not
/// finite. Every rank must call it, even one that has no data left. Returns whether an update has
/// been made.
template <class T>
bool train_step(const Parts<T>& parts, Updater<T>& updater, BatchLoader<T>& data,
                const TrainStep& step);

/// Adds this rank's part of the current batch to `status`, in inference.
template <class T>
void test_step(const Parts<T>& parts, BatchLoader<T>& data, StatusBlock& status);

/// Reads this rank's part of the current batch (nothing when `has_batch` is false) and runs the
/// model forward. `step` is told only for training, `moments` only where the model is adapted to
/// data.
template <class T>
StepContext forward_batch(const Parts<T>& parts, BatchLoader<T>& data, bool has_batch,
                          const TrainStep* step = nullptr, MomentSink moments = {});

// The parts of a step, for a program's loops.

/// What the layers are told. `step` is given only for training.
template <class T>
[[nodiscard]] StepContext step_context(const Parts<T>& parts,
                                       std::span<const std::int64_t> sample_indices,
                                       const TrainStep* step, MomentSink moments = {});

/// Forward over the batch that the workspace uses.
template <class T>
void forward_rows(const Parts<T>& parts, const StepContext& context, SampleName name);

/// Adds a batch to `status`: the samples of the workspace after forward, their losses and, where
/// there are targets, their metrics. Computes the gradient, unless it is empty. (A row of weight 0
/// counts, but its loss is not looked at.) The gradient is `loss_scale` times that of the loss.
template <class T>
void record(const Parts<T>& parts, const StepContext& context, SampleName name,
            ComputeLoss<T> compute, TensorView<T> gradient, StatusBlock& status,
            std::span<const double> class_weight = {}, double loss_scale = 1);

/// Backward, during which the updater works; after record. Returns whether an update has been made.
template <class T>
bool update_during_backward(const Parts<T>& parts, Updater<T>& updater, StepContext context,
                            const TrainStep& step, bool has_batch = true);
/// The same in two calls: backward, which divides the gradients by the loss scale, and the update.
template <class T>
void differentiate(const Parts<T>& parts, const StepContext& context, double loss_scale = 1);
template <class T>
bool update_after_backward(const Parts<T>& parts, Updater<T>& updater, const TrainStep& step);

/// Mean loss and metrics of `status`, under names with a prefix ("val_").
template <class T>
void report(const Program<T>& program, const StatusBlock& status, Logs& logs,
            const std::string& prefix = {});

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/step.ipp"
#endif
