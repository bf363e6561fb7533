// Program: what a training step asks of the user's types.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/compute_device.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/loss_scale.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What a model takes: the shape of a sample, and how many target values the loss wants for it (0:
/// none are read).
struct DataSizes {
  std::span<const std::size_t> input;
  std::size_t targets = 0;
  std::string_view loss = {};           ///< its name
  std::string_view target_advice = {};  ///< what to do if the targets do not fit; may be empty
  bool has_several_losses = false;      ///< of parts of the targets, or of steps
  std::size_t positions = 1;            ///< rows of a sample; each may have a weight
};

/// The names of a model's parts.
struct ProgramNames {
  std::vector<std::string> layers;           ///< of the flattened model
  std::vector<std::string> variables;        ///< "dense_1/kernel"
  std::vector<std::string> state_variables;  ///< of those that are not trained
  std::vector<VariablePlace> order;          ///< of all variables, layer by layer, in Keras's order
};

/// Layers, loss, optimizer and metrics, as code that is no template of them sees them: a few calls
/// for each step (see Compiled). T is the scalar type of all arrays. The calls change nothing in
/// the object, and several replicas make them at once.
template <class T>
class Program {
 public:
  /// Sizes in elements of a sample.
  struct Layout {
    std::span<const Variable> variables;
    std::span<const Variable> state_variables;  ///< those that are not trained
    std::size_t inputs = 0;
    std::size_t targets = 0;       ///< of a row; 0: none are read
    std::size_t outputs = 0;       ///< of a row
    std::size_t positions = 1;     ///< rows of a sample: more than 1 where the output is a Sequence
    std::size_t metric_state = 0;  ///< doubles, of all metrics
    std::size_t slots = 0;         ///< of the optimizer
    bool has_optimizer = true;
    DataSizes data{};
    std::span<const LayerInfo> layers{};           ///< empty where the network does not tell
    ComputeDevice* device = nullptr;               ///< see device()
    std::string_view policy{};                     ///< of precision; no part of what is saved
    std::optional<LossScaleOptions> loss_scale{};  ///< of the policy, if gradients need one
    Flop flop{};                                   ///< of a sample
  };
  /// Calls f(position, y) for the outputs of the layers.
  using EachOutput = FunctionRef<void(std::size_t, const TensorView<const T>&)>;
  /// The most slots of an optimizer.
  static constexpr std::size_t max_slots = 8;

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] virtual ProgramNames names() const = 0;
  /// What ranks must have in common besides the variables, a line for each thing: the input; and
  /// output, loss, optimizer and metrics.
  [[nodiscard]] virtual std::string input_description() const = 0;
  [[nodiscard]] virtual std::string parts_description() const = 0;
  /// The loss and the metrics that would take the outputs of a model without a last activation for
  /// probabilities; empty for none.
  [[nodiscard]] virtual std::string takers_of_logits() const { return {}; }

  /// What runs forward, backward and update; null: the processor. forward has finished when it
  /// returns, the other two after synchronize().
  [[nodiscard]] ComputeDevice* device() const noexcept { return layout_.device; }
  /// Memory of zeros where the layers and the optimizer compute.
  [[nodiscard]] Buffer allocate(std::size_t bytes) const {
    return device() == nullptr ? Buffer(bytes) : device()->allocate(bytes);
  }
  /// Before the processor reads what backward or update has written.
  void synchronize() const {
    if (device() != nullptr) device()->synchronize();
  }

  /// Elements that forward leaves for backward.
  [[nodiscard]] virtual std::size_t scratch(std::size_t samples) const = 0;
  /// Elements that layers need while they run.
  [[nodiscard]] virtual std::size_t temporary(std::size_t) const { return 0; }
  virtual void forward(const ForwardPass<T>& pass) const = 0;
  /// Leaves the sum over the samples in the gradients.
  virtual void backward(const BackwardPass<T>& pass) const = 0;
  /// After forward; `position` counts layers in the flattened model.
  virtual void each_output(const ForwardPass<T>& pass, EachOutput f) const = 0;

  /// See Loss. May throw BadTarget.
  virtual void compute_loss(TensorView<const T> predictions, TensorView<const T> targets,
                            std::span<double> losses, TensorView<T> gradient) const = 0;
  /// See IgnoringLoss.
  [[nodiscard]] virtual bool ignore(TensorView<const T> targets, std::span<T> weights) const = 0;
  /// `weights`: whether a row counts, and `sample_weights`: how often it does for a weighted
  /// metric; each may be empty, when all rows count once. `state`: that of all metrics, one after
  /// the other.
  virtual void update_metrics(TensorView<const T> predictions, TensorView<const T> targets,
                              std::span<const T> weights, std::span<const T> sample_weights,
                              std::span<double> state) const = 0;
  virtual void report_metrics(std::span<const double> state, Logs& logs,
                              const std::string& prefix) const = 0;

  /// The optimizer's sweep; see Optimizer.
  virtual void update(const UpdateContext& context, std::span<T> parameters,
                      std::span<const T> gradients, std::span<T* const> slots) const = 0;
  [[nodiscard]] virtual double initial_learning_rate() const = 0;
  [[nodiscard]] virtual double initial_slot_value() const = 0;
  /// What the optimizer's options ask for besides its sweep.
  [[nodiscard]] virtual UpdateRules update_rules() const { return {}; }
  /// The slots of Keras's optimizer of this kind; nothing where there is none.
  virtual void keras_slots(KerasSlots& /*list*/) const {}

 protected:
  explicit Program(const Layout& layout) noexcept : layout_(layout) {}

 private:
  Layout layout_;
};

}}}  // namespace lockstep::detail
