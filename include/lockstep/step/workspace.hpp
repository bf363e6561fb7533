// The memory of one replica: gradients, untrained state, a batch and its activations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/kernels/penalty.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/step/batch_memory.hpp"
#include "lockstep/step/constraints.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What the Regularizers of variables add. The loss and the gradient of a step are sums over rows,
/// divided at the end by the rows of all ranks. So each rank adds the penalty times its number of
/// rows, and it counts once in the mean, however the rows are spread. The gradient is added before
/// the reduction, so that all routes of an update, and clipping by norms, see it. Used by one
/// thread.
template <class T>
class Regularization {
 public:
  explicit Regularization(std::span<const Variable> variables) {
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (!variables[i].regularizer.is_none()) penalties_.push_back({i, variables[i].regularizer});
  }

  [[nodiscard]] bool empty() const noexcept { return penalties_.empty(); }

  /// The sum of all penalties.
  [[nodiscard]] double penalty(const Arena<T>& parameters) const {
    double sum = 0;
    for (const Penalty& penalty : penalties_) {
      const std::span<const T> values = parameters.slices()[penalty.variable];
      sum += kernels::penalty(penalty.regularizer, values.size(), values.data());
    }
    return sum;
  }

  /// The next gradients are those of a step with this many rows on this rank.
  void begin_step(double rows) noexcept {
    rows_ = rows;
    done_ = 0;
  }

  /// The first `count` gradients of the arena are final but for penalties: adds these, to each
  /// gradient once in a step.
  void add_gradients(const Arena<T>& parameters, const Arena<T>& gradients, std::size_t count) {
    if (rows_ > 0)
      for (const Penalty& penalty : penalties_) {
        const std::span<const T> values = parameters.slices()[penalty.variable];
        const std::span<T> slice = gradients.slices()[penalty.variable];
        const auto first = static_cast<std::size_t>(slice.data() - gradients.values().data());
        const std::size_t begin = std::clamp(done_, first, first + slice.size()) - first;
        const std::size_t end = std::clamp(count, first, first + slice.size()) - first;
        if (begin < end)
          kernels::add_penalty_gradient(penalty.regularizer, rows_, end - begin,
                                        values.data() + begin, slice.data() + begin);
      }
    done_ = std::max(done_, count);
  }

 private:
  struct Penalty {
    std::size_t variable = 0;
    Regularizer regularizer;
  };

  std::vector<Penalty> penalties_;
  double rows_ = 0;
  std::size_t done_ = 0;
};

/// What a replica knows about the first loss in a fit that is not finite.
struct NonFiniteLoss {
  std::string source;        ///< where it comes from; empty when this replica's losses are finite
  bool is_reported = false;  ///< the ranks have told each other
};

/// Gradients, untrained state and activations of one replica. Memory is kept for the largest batch
/// seen; smaller ones use its beginning. Parameters belong to the model: the replicas of a process
/// share them. Used by the replica's thread.
template <class T>
class Workspace {
 public:
  /// `allocate` gives the memory of the gradients.
  Workspace(const Program<T>& program, Allocate allocate);

  /// A step changes untrained state (moving statistics) on its way forward; one that fails later is
  /// undone, with the steps before it that it `continues`.
  void begin_step(bool continues = false) noexcept;
  void end_step() noexcept { in_step_ = false; }
  void undo_step() noexcept;

  /// The sums of the last step.
  [[nodiscard]] StatusBlock& status() noexcept { return status_; }
  [[nodiscard]] const StatusBlock& status() const noexcept { return status_; }

  /// What a step reduces besides gradients: its status, then the untrained state weighted with its
  /// samples. (In double, so that the mean of equal floats is that number.)
  [[nodiscard]] std::span<double> pack_status();
  /// After the reduction: the untrained state becomes the mean of the ranks'. So what is saved,
  /// evaluated or resumed does not depend on the rank, and a rank without samples does not count.
  void take_status(int ranks);

  NonFiniteLoss non_finite;
  Regularization<T> regularization;
  Constraints<T> constraints;
  ActivityPenalty activity_penalty;  ///< of the batch
  /// Backward computes with gradients divided by it, where a loss scale applies: this rank's rows,
  /// as Keras scales the gradient of a mean. (The next power of two, so that it loses nothing.)
  double gradient_divisor = 1;
  /// Time spent in the reductions of steps since it was last read; readers reset it to zero.
  Trace::Clock::duration in_collective{};

  [[nodiscard]] const Arena<T>& gradients() const noexcept { return gradients_; }
  [[nodiscard]] Arena<T>& gradients() noexcept { return gradients_; }
  /// In a paged_buffer(): they are zeros, and take no memory until they are written.
  void release_gradients() noexcept {
    const auto bytes = std::as_writable_bytes(gradients_.values());
    release_pages(bytes.data(), bytes.size());
  }
  /// The rounding errors of a half-precision wire in this worker's gradients; empty unless
  /// keep_residuals() was called.
  [[nodiscard]] const Arena<T>& residuals() const noexcept { return residuals_; }
  [[nodiscard]] Arena<T>& residuals() noexcept { return residuals_; }
  void keep_residuals();
  /// Variables that are not trained.
  [[nodiscard]] const Arena<T>& state() const noexcept { return state_; }
  [[nodiscard]] Arena<T>& state() noexcept { return state_; }
  /// These as they were before the step under way.
  [[nodiscard]] const Arena<T>& state_before_step() const noexcept { return state_before_step_; }

  /// Bytes for the batch, the activations and what layers need while they run.
  [[nodiscard]] std::size_t batch_bytes() const noexcept {
    return memory_.size() + device_memory_.size() + losses_.size() * bytes_of_row<T>;
  }
  /// Makes room for a batch of `samples`, with `weight_size` weights behind each target, and sets
  /// the views below. Allocates only when no batch was as large before.
  void resize(std::size_t samples, std::size_t weight_size = 0);
  /// Where a batch may be read to, sample by sample.
  [[nodiscard]] BatchViews<T> batch() const noexcept { return {own_x_, batch_targets_}; }
  /// Takes a batch that has been read to batch(), or lies elsewhere, until resize. The last
  /// `weight_size` of the target values are weights. It may have no targets or, for a loss that a
  /// step is given, others than compile's.
  void use(TensorView<const T> x, TensorView<const T> targets, std::size_t weight_size);
  void use(const BatchViews<T>& batch) {
    const auto& layout = program_.layout();
    use(batch.x, batch.targets, batch.targets.features() - layout.targets * layout.positions);
  }

  [[nodiscard]] TensorView<const T> x() const noexcept { return x_; }
  /// Row by row, as the predictions. The program's loss and metrics read them if has_targets().
  [[nodiscard]] TensorView<const T> targets() const noexcept { return targets_; }
  [[nodiscard]] bool has_targets() const noexcept { return has_targets_; }
  /// The samples' weights; empty where they have none.
  [[nodiscard]] TensorView<const T> batch_weights() const noexcept { return batch_weights_; }
  [[nodiscard]] TensorView<const T> predictions() const noexcept { return y_; }
  /// Where the loss writes the gradient of the predictions.
  [[nodiscard]] TensorView<T> prediction_gradient() const noexcept { return dy_; }
  /// Where it writes the loss of each row.
  [[nodiscard]] std::span<double> losses() noexcept { return {losses_.data(), y_.samples()}; }
  /// After forward: 1 for each row, 0 for one that is masked or that the loss ignores; empty where
  /// all rows count.
  [[nodiscard]] std::span<const T> weights();
  /// After weights(), which gave `counted`: how much each row weighs in the loss and in weighted
  /// metrics; empty where all rows weigh the same. A row weighs its sample's weight times its
  /// class's in `class_weight` (1 where it has none); the class is the target, or the place of the
  /// largest of several.
  [[nodiscard]] std::span<const T> sample_weights(std::span<const T> counted,
                                                  std::span<const double> class_weight);

  void forward(const StepContext& context, Slices<T> weights);
  /// Calls f(position, y) for the outputs of the layers as forward has left them.
  void each_output(typename Program<T>::EachOutput f) const;
  /// What backward is given. It leaves the sum over the samples in gradients(), and has no dx.
  [[nodiscard]] BackwardPass<T> backward_pass(const StepContext& context, Slices<T> weights);
  void backward(const StepContext& context, Slices<T> weights) {
    program_.backward(backward_pass(context, weights));
  }

 private:
  /// Takes a batch's targets, and weights behind them, sample by sample. (For a Sequence, `use`
  /// puts the targets row by row.)
  void set_targets(const TensorView<const T>& batch, std::size_t targets);
  [[nodiscard]] T class_factor(std::size_t row, std::span<const double> class_weight) const;

  const Program<T>& program_;
  Arena<T> gradients_;
  Arena<T> residuals_;
  Arena<T> state_;
  Arena<T> state_before_step_;
  bool in_step_ = false;
  StatusBlock status_;
  std::vector<double> packed_;
  Buffer memory_, device_memory_, other_targets_;
  TensorView<T> own_x_, batch_targets_, rows_of_targets_, y_, dy_;
  TensorView<const T> x_, targets_;
  bool has_targets_ = true;
  std::vector<double> losses_;
  std::vector<T> weights_, sample_weights_;
  TensorView<const T> batch_weights_;  // sample by sample; empty: none
  const T* mask_ = nullptr;            // of the predictions
  std::span<T> scratch_, temporary_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/workspace.ipp"
#endif
