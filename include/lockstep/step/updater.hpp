// Updater: how the gradients of a step become new parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What an Updater is told of a training step.
struct UpdateStep {
  std::int64_t iteration = 1;  ///< the number, from 1, of the update that the step contributes to
  bool stop_on_non_finite = false;
  Trace* trace = nullptr;
  bool is_first = true;     ///< of its window
  bool is_last = true;      ///< of its window: it makes the update
  bool has_batch = true;    ///< this rank's data have not ended
  bool ends_epoch = false;  ///< ranks meet after it (see Synchronization)
  double earlier_rows = 0;  ///< of the steps before it in its window
  double loss_scale = 1;    ///< the gradients are those of the loss times this

  /// What the gradients are divided by. `sums`: the status of all ranks.
  [[nodiscard]] double rows(std::span<const double> sums) const noexcept {
    return (sums[StatusBlock::rows] + earlier_rows) * loss_scale;
  }
  /// Whether parameters change.
  [[nodiscard]] bool makes_update(std::span<const double> sums) const noexcept {
    const bool has_data =
        earlier_rows > 0 ? sums[StatusBlock::samples] > 0 : sums[StatusBlock::rows] > 0;
    return is_last && has_data && !(stop_on_non_finite && sums[StatusBlock::non_finite] > 0);
  }
};

/// A route from the gradients of a step to new parameters. Each route is one header of
/// step/updaters/, and choose_updater() takes one for each replica when a fit begins, unless the
/// strategy brings its own (RemoteVariables); verbose 2 shows its name. The training step knows
/// none of them.
///
/// In each step a rank calls, on its thread:
///  1. `begin(step)`, before backward. The workspace has the loss, the untrained state and the
///     status of this rank. Returns what backward must report.
///  2. `ready(count)`, during backward: the first `count` elements of the gradient arena are final
///     and may be reduced (Progress::gradients), or backward does not read their parameters any
///     more either, so that these may be updated (Progress::variables). The counts grow.
///  3. `finish()`, after backward. On return the status and the untrained state of the workspace
///     are those of all ranks, and every parameter that this rank reads next is updated. Returns
///     whether the step has made an update (see UpdateStep::makes_update); if not, nothing has
///     changed.
///  4. `carry(steps)`, when a window is interrupted, as at the end of an epoch: stores the
///     gradients of its `steps` so far in Variables.
/// All ranks are in the same step, and equal calls of their collectives come in the same order.
/// What an Updater throws ends the step, and the parameters of this process may be of either step.
///
/// Where a worker has only the slots of its share (Variables::share_updates), the training loop
/// gathers them before a state is saved. A parameter server takes the place of the collective.
template <class T>
class Updater {
 public:
  enum class Progress : std::uint8_t { none, gradients, variables };

  Updater(const Updater&) = delete;
  Updater& operator=(const Updater&) = delete;
  virtual ~Updater() = default;

  /// For verbose 2: what happens to the gradients.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Whether it reads the gradients on the processor. If not, a device need not have finished
  /// backward before finish().
  [[nodiscard]] virtual bool reads_gradients() const noexcept { return true; }
  virtual Progress begin(const UpdateStep& step) = 0;
  virtual void ready(std::size_t count) = 0;
  virtual bool finish() = 0;
  virtual void carry(std::int64_t /*steps*/) {}
  /// Called after finish(). Nothing if the ranks have not met in this step (rounds): the status
  /// then covers this rank alone. Otherwise it covers all ranks, and the result is the number of
  /// steps by which this rank is behind the one with most data, since they last met.
  [[nodiscard]] virtual std::optional<std::int64_t> missed_steps() const { return 0; }

 protected:
  explicit Updater(const Parts<T>& parts) noexcept : parts_(parts) {}

  Parts<T> parts_;
};

/// Where a loss scale applies, after norms() are those of the reduced gradients: notes them in the
/// status. Returns whether all gradients are finite, so that the update is made.
template <class T>
[[nodiscard]] bool are_finite(const Parts<T>& parts) {
  if (!parts.variables.scales_loss()) return true;
  const double norm = parts.variables.norms().norm();
  parts.workspace.status().gradient_squares() = norm * norm;
  return !parts.workspace.status().has_overflowed();
}

}}}  // namespace lockstep::detail
