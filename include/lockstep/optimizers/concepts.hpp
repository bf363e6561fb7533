// The Optimizer concept.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/optimizers/keras_slots.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a momentum repeats of the steps before. The two differ where the learning rate changes.
enum class MomentumForm : std::uint8_t {
  /// The steps as they were made, each with the learning rate of its time: Keras's. After a rate
  /// has been cut by ten, about 1 / (1 - momentum) steps stay nearly as long as before.
  keras,
  /// The gradients, all with the learning rate of this update, so that a new one applies at
  /// once: PyTorch's, whose momentum_buffer holds gradients alone. It is the "momentum correction"
  /// of Goyal et al., "Accurate, large minibatch SGD", 2017, section 3. (An update at the rate 0
  /// forgets the momentum.)
  pytorch,
};

/// What an optimizer is told about one update.
struct UpdateContext {
  std::int64_t iteration = 1;         ///< 1 for the first update
  double learning_rate = 0;           ///< of this update (callbacks and schedules may change it)
  double previous_learning_rate = 0;  ///< that of the update before; 0: there was none
  double gradient_scale = 1;  ///< multiply the gradients by this: 1 / rows of all ranks, or clipped
  bool decays = true;         ///< weight decay applies to these parameters
  // For an optimizer with updates_whole_variables, or on a device:
  const Variable* variable = nullptr;   ///< the one that is updated
  std::string_view variable_name = {};  ///< "dense_1/kernel"
  double gradient_limit =
      infinite_limit;  ///< clipvalue: gradients times gradient_scale are brought within it

  static constexpr double infinite_limit = std::numeric_limits<double>::infinity();

  /// What decoupled weight decay leaves of a parameter.
  [[nodiscard]] constexpr double keep(double weight_decay) const noexcept {
    return decays ? 1 - learning_rate * weight_decay : 1;
  }

  /// What a slot of steps is multiplied by. With MomentumForm::pytorch all of them then count with
  /// the rate of this update: `momentum` times the new rate over the old one. (Not more than a slot
  /// of floats can bear.)
  [[nodiscard]] constexpr double kept_momentum(double momentum, MomentumForm form) const noexcept {
    return form == MomentumForm::pytorch && previous_learning_rate > 0
               ? momentum * std::min(learning_rate / previous_learning_rate, 1e30)
               : momentum;
  }
};

/// An optimizer as a plain aggregate of hyper-parameters; its per-run state (slots, iterations, the
/// current learning rate) belongs to the model and is saved with it.
///
/// For an optimizer O and T = float or double:
///  1. `O::name` converts to std::string_view (Keras's name).
///  2. `optimizer.description()` converts to std::string: name and every hyper-parameter; workers
///     compare it before they train together.
///  3. `optimizer.learning_rate` converts to double: the initial one. As a LearningRate it may be a
///     schedule.
///  4. `optimizer.slots()`: how many arrays of the size of the parameters it keeps (0 for plain
///     SGD); zero at first, unless `optimizer.initial_slot_value()` (optional) says otherwise.
///  5. `optimizer.update(context, parameters, gradients, slots)` changes the parameters
///     (std::span<T>) and the slots (std::span<T* const>, each as long as parameters) by the
///     gradients (std::span<const T>), element by element: the model calls it on any partition of
///     the arena, from several threads at once, and an element's result must not depend on the
///     partition. Spans start at multiples of 64 bytes.
/// Optional:
///  6. `optimizer.validate()`: throws ConfigurationError for options that make no sense; compile
///     calls it.
///  7. Members `clipnorm`, `clipvalue`, `global_clipnorm` (double; 0: none),
///     `learning_rate_factors` (LearningRateFactors), `exclude_from_weight_decay` (VariableFilter),
///     `use_ema`, `ema_momentum`, `ema_overwrite_frequency` and `gradient_accumulation_steps`: what
///     they ask for is done for the optimizer (see update_rules.hpp). It learns of it by the
///     context; only weight decay it does itself, with context.keep(weight_decay).
///  8. A member `updates_whole_variables` that is true: each call of update has the elements of one
///     variable, and the context names it. So its result may depend on all of them (norms).
///     Clipping by value is then left to the optimizer (see whole_variables.hpp).
///  9. `optimizer.keras_slots(list)`: adds to a KerasSlots where Keras's optimizer of this kind has
///     the slots. (Without, Keras's files are read and written without the optimizer's state.)
template <class O, class T = float>
concept Optimizer =
    std::copyable<O> &&
    requires(const O& optimizer, const UpdateContext& context, std::span<T> parameters,
             std::span<const T> gradients, std::span<T* const> slots) {
      { O::name } -> std::convertible_to<std::string_view>;
      { optimizer.description() } -> std::convertible_to<std::string>;
      { optimizer.learning_rate } -> std::convertible_to<double>;
      { optimizer.slots() } -> std::convertible_to<std::size_t>;
      optimizer.update(context, parameters, gradients, slots);
    };

/// The optimizer of a model that is not trained.
struct NoOptimizer {
  double learning_rate = 0;
  static constexpr std::string_view name = "none";
  [[nodiscard]] std::string description() const { return std::string(name); }
  [[nodiscard]] constexpr std::size_t slots() const { return 0; }
  /// Is not called.
  template <class T>
  void update(const UpdateContext&, std::span<T>, std::span<const T>, std::span<T* const>) const {}
};

}}  // namespace lockstep
