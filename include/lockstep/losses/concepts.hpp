// The Loss concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A loss says how many target values it needs for each sample, given the model's output shape.
template <class L, class Out>
concept TargetedLoss = StaticShape<Out> && requires {
  { L::template target_size<Out> } -> std::convertible_to<std::size_t>;
};

/// A loss computes its value, with and without the gradient.
template <class L, class T>
concept DifferentiableLoss =
    requires(const L& loss, TensorView<const T> predictions, TensorView<const T> targets, TensorView<T> gradient) {
      { loss.value(predictions, targets) } -> std::convertible_to<double>;
      { loss.value_and_gradient(predictions, targets, gradient) } -> std::convertible_to<double>;
    };

/// A loss function over the samples of a batch.
///
/// For a loss L, an output shape Out and T = float or double:
///  1. `L::name` converts to std::string_view (Keras's snake_case name).
///  2. `loss.description()` converts to std::string: name and options; workers compare it before
///     they train together.
///  3. `L::template target_size<Out>`: target values per sample. Sparse class labels are whole
///     numbers stored as T.
///  4. `loss.value(predictions, targets)`: the SUM (not the mean) of the loss over the samples, as
///     double; 0 without samples. predictions is [samples x Out::size], targets [samples x
///     target_size]. Throws DataError for a bad target: BadTarget, where the message is to name the
///     sample.
///  5. `loss.value_and_gradient(predictions, targets, gradient)`: the same, and writes the gradient
///     of that sum with respect to the predictions, zero in the padding.
/// Optional:
///  6. `loss.validate()`: throws ConfigurationError for options that make no sense; compile calls
///     it.
///  7. `L::target_advice` converts to std::string_view: what to do if the data have another number
///     of target values per sample. It ends the error's message.
///
/// The replicas of a process call one loss at the same time.
template <class L, class Out, class T = float>
concept Loss = std::copyable<L> && TargetedLoss<L, Out> && DifferentiableLoss<L, T> && requires(const L& loss) {
  { L::name } -> std::convertible_to<std::string_view>;
  { loss.description() } -> std::convertible_to<std::string>;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
