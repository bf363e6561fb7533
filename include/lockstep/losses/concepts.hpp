// The Loss concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A loss says how many target values it needs for each sample, given the model's output shape.
template <class L, class Out>
concept TargetedLoss = StaticShape<Out> && requires {
  { L::template target_size<Out> } -> std::convertible_to<std::size_t>;
};

/// A loss computes the loss of each row and its gradient.
template <class L, class T>
concept DifferentiableLoss =
    requires(const L& loss, TensorView<const T> predictions, TensorView<const T> targets,
             std::span<double> losses,
             TensorView<T> gradient) { loss.compute(predictions, targets, losses, gradient); };

/// A loss that leaves some rows out, by their targets.
template <class L, class T>
concept IgnoringLoss = requires(const L& loss, TensorView<const T> targets, std::span<T> weights) {
  { loss.ignore(targets, weights) } -> std::convertible_to<bool>;
};

/// Whether a loss, or a metric, takes predictions for probabilities.
template <class L>
[[nodiscard]] constexpr bool takes_probabilities([[maybe_unused]] const L& part) {
  if constexpr (requires { part.has_probabilities(); })
    return part.has_probabilities();
  else if constexpr (requires { part.from_logits; })
    return !part.from_logits;
  else if constexpr (requires { part.loss; })
    return takes_probabilities(part.loss);
  else if constexpr (requires { part.metric; })
    return takes_probabilities(part.metric);
  else
    return false;
}

/// A loss function over the rows of a batch: samples or, where the output is a Sequence, tokens.
/// The model sums over them, leaves out those that are masked, and divides by the number of the
/// others.
///
/// For a loss L, an output shape Out and T = float or double:
///  1. `L::name` converts to std::string_view (Keras's snake_case name).
///  2. `loss.description()` converts to std::string: name and options; workers compare it before
///     they train together.
///  3. `L::template target_size<Out>`: target values per row; Out is the shape of a row. Sparse
///     class labels are whole numbers stored as T.
///  4. `loss.compute(predictions, targets, losses, gradient)`: writes the loss of row i to
///     losses[i] (std::span<double> of the rows, without padding), and its gradient with respect to
///     the predictions to row i of gradient, zero in the padding, unless gradient.empty().
///     predictions is [rows x Out::size], targets [rows x target_size]. A row does not depend on
///     others. Throws DataError for a bad target: BadTarget, where the message is to name the
///     sample.
/// Optional:
///  5. `loss.validate()`: throws ConfigurationError for options that make no sense; compile calls
///     it.
///  6. `loss.from_logits` (bool): false where predictions are probabilities, so that compile warns
///     where a model ends linearly; or `loss.has_probabilities()`.
///  7. `L::target_advice` converts to std::string_view: what to do if the data have another number
///     of target values per row. It ends the error's message.
///  8. `loss.ignore(targets, weights)`: sets to 0 the weights (std::span<T> of the rows) of those
///     rows that do not count, and returns whether there may be any. Their losses and gradients are
///     not used; compute takes their targets all the same.
///  9. `L::has_steps`: the outputs of a row are steps, Shape<steps, classes>, and its targets as
///     many. Of other losses, `target_size` is asked for flat shapes, too.
///
/// The replicas of a process call one loss at the same time.
template <class L, class Out, class T = float>
concept Loss = std::copyable<L> && TargetedLoss<L, Out> && DifferentiableLoss<L, T> &&
               requires(const L& loss) {
                 { L::name } -> std::convertible_to<std::string_view>;
                 { loss.description() } -> std::convertible_to<std::string>;
               };

namespace detail {

/// The type of a loss's compute, for instances that the library holds.
template <class T>
using LossCompute = void(TensorView<const T>, TensorView<const T>, std::span<double>,
                         TensorView<T>) const;

/// Whether a loss has several, each for a part of the targets.
template <class L>
inline constexpr bool has_parts = requires { L::has_parts; };

}  // namespace detail
/// The loss of a model that has none: for prediction, and for a program's loops whose
/// steps are given one.
struct NoLoss {
  static constexpr std::string_view name = "none";
  template <class Out>
  static constexpr std::size_t target_size = 0;
  [[nodiscard]] std::string description() const { return std::string(name); }
  /// Throws ConfigurationError.
  template <class T>
  void compute(TensorView<const T>, TensorView<const T>, std::span<double>, TensorView<T>) const {
    throw ConfigurationError(
        "the model was compiled without a loss: give it to the step, as in minimize(batch, loss), "
        "or to compile");
  }
};

}}  // namespace lockstep
