// The Layer concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A layer says what it is called (Keras's snake_case class name; the model numbers repeated names).
template <class L>
concept NamedLayer = requires {
  { L::name } -> std::convertible_to<std::string_view>;
};

/// A layer knows its output shape, given the shape of its input.
template <class L, class In>
concept ShapedLayer = StaticShape<In> && requires { requires StaticShape<typename L::template Output<In>>; };

/// A layer computes its output.
template <class L, class In, class T>
concept ForwardLayer = requires(const ForwardPass<T>& pass) { L::template forward<In, T>(pass); };

/// A layer computes the gradients of its weights and of its input.
template <class L, class In, class T>
concept BackwardLayer = requires(const BackwardPass<T>& pass) { L::template backward<In, T>(pass); };

/// A layer whose output is its input seen with another shape (Reshape, Flatten): it has no forward, no backward, no variables.
template <class L>
concept AliasingLayer = requires { requires L::aliases_input; };

/// A layer of a model, as a type. All of its functions are static; its variables live in the model's arenas.
///
/// For a layer L, a static shape In that L accepts, and T = float or double:
///  1. `L::name` converts to std::string_view.
///  2. `L::template Output<In>` is a Shape.
///  3. `L::template forward<In, T>(const ForwardPass<T>&)` writes y from x, for any number of samples, 0 included. It does
///     not allocate. Rows are independent of their position in the batch.
///  4. `L::template backward<In, T>(const BackwardPass<T>&)` writes dx and gradients, both summed over the samples and
///     not divided by their number. Where a replica is alone, or shares its parameters with threads, these change while backward
///     goes on: one that throws leaves a step half made.
///  5. Or, instead of 3 and 4, `L::aliases_input` is true: the output is the input, seen with another shape.
/// Optional:
///  6. `L::template variables<In>`: a constexpr array of Variable, the trained ones. Absent: none.
///  7. `L::template state_variables<In>`: the same for those that are not trained (moving statistics). After each training step
///     the model makes them the mean of the replicas', weighted with their samples.
///  8. `L::template scratch<In>(std::size_t stride)`: constexpr number of elements that forward leaves for backward.
///  9. `L::template backward_weights<In, T>(const BackwardPass<T>&)`: like backward, but dx is empty and not wanted. It is
///     called for the first layer that has variables. Absent: backward is called and its dx thrown away.
/// 10. `L::keeps_padding` is true: L leaves finite values in the padding of y and zeros in that of dx. Absent or false: the
///     model sees to it after each call.
/// 11. `L::template check<Position, In>()`: a consteval bool function whose static_asserts refuse shapes that L cannot take, before
///     Output<In> is asked. Position is the layer's in its Sequential; a static_assert over a concept of both puts them
///     beside the message on every compiler.
///
/// 12. `L::template WithActivation<Function>`: the layer that does what L and an Activation<Function> after it do. A model uses it
///     in place of the two, where both are there; names, summary and saved state stay those of the two. It has the output and the
///     variables of L, and is there only while L has no activation of its own (a requires-clause). `L::Preactivation` is the
///     way back: L without its activation, which is `L::OutputActivation`. (Both ways, so that a layer that inherits from L is
///     not taken for it.)
/// 13. `L::backward_in_place` is true: dx may be the same array as dy, which spares the caches; where input and output have the
///     same size, the model mostly makes it so.
/// 14. `L::AnnouncesGradients` is L itself: backward calls pass.context.gradients_ready(pass.gradients) when it will not touch its
///     gradients any more, before it computes dx, and may also call pass.context.variables_done, and each with the beginning of its
///     first variable (see StepContext). Otherwise the model does so after backward. (The name of the type, so that a layer
///     that inherits from L, or calls it and then changes its gradients, promises nothing.)
/// 15. `L::template backward_through<Self, Function, In, T>(const BackwardPass<T>&)`, with requires-clauses that Self is L itself,
///     and for each Function that it can do: backward, where dx is the gradient of the value that the Function made x of, and is
///     the same array as x. A model uses it where the layer before L has 12; of that, the Preactivation goes backward then (its
///     y is dy, its scratch what forward has left). That spares a pass over memory. The Preactivation of L must have it too.
///
/// Minimal model:
/// @code
/// struct Scale {  // y = factor * x, one factor per feature
///   static constexpr std::string_view name = "scale";
///   template <class In> using Output = In;
///   template <class In>
///   static constexpr std::array variables{lockstep::Variable{"factor", {In::size}, lockstep::ones}};
///   template <class In, class T>
///   static void forward(const lockstep::ForwardPass<T>& p) {
///     for (std::size_t f = 0; f < In::size; ++f) p.y.matrix().col(f) = p.weights[0][f] * p.x.matrix().col(f);
///   }
///   template <class In, class T>
///   static void backward(const lockstep::BackwardPass<T>& p) {
///     for (std::size_t f = 0; f < In::size; ++f) {
///       p.gradients[0][f] = p.dy.matrix().col(f).dot(p.x.matrix().col(f));
///       p.dx.matrix().col(f) = p.weights[0][f] * p.dy.matrix().col(f);
///     }
///   }
/// };
/// @endcode
template <class L, class In, class T = float>
concept Layer =
    NamedLayer<L> && ShapedLayer<L, In> && (AliasingLayer<L> || (ForwardLayer<L, In, T> && BackwardLayer<L, In, T>));

}  // namespace lockstep::inline LOCKSTEP_ABI
