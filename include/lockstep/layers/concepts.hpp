// The concepts Layer, FusibleLayer and ContainerLayer.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A layer says what it is called (Keras's snake_case class name; the model numbers repeated
/// names).
template <class L>
concept NamedLayer = requires {
  { L::name } -> std::convertible_to<std::string_view>;
};

/// A layer knows its output shape, given the shape of its input.
template <class L, class In>
concept ShapedLayer =
    StaticShape<In> && requires { requires StaticShape<typename L::template Output<In>>; };

/// A layer computes its output.
template <class L, class In, class T>
concept ForwardLayer = requires(const ForwardPass<T>& pass) { L::template forward<In, T>(pass); };

/// A layer that computes a few samples without padding: forward_few gives each of them the bits
/// that forward gives it. Where a network has such layers alone, and those that change nothing,
/// Predictor computes up to four samples by them.
template <class L, class In, class T>
concept FewSamplesLayer =
    requires(const FewSamplesPass<T>& pass) { L::template forward_few<In, T>(pass); };

/// A layer computes the gradients of its weights and of its input.
template <class L, class In, class T>
concept BackwardLayer =
    requires(const BackwardPass<T>& pass) { L::template backward<In, T>(pass); };

/// A layer whose output is its input seen with another shape (Reshape, Flatten): it has no forward,
/// no backward and no variables.
template <class L>
concept AliasingLayer = requires { requires L::aliases_input; };

/// A layer that is given a Sequence whole. (Any other layer is applied to each token of a Sequence
/// by itself: it sees the token's shape, and tokens as samples.) Where x is a Sequence<P, D>, the
/// rows of x.samples() are tokens, those of one sample one after the other: element d of token t of
/// sample s is x.feature(d)[s * P + t]. y likewise. Its scratch<In> and temporary<In> are given the
/// number of samples, not a stride. The mask of x ends here, unless L::keeps_mask is true or
/// forward calls set_mask.
template <class L>
concept SequenceLayer = requires { requires L::takes_sequences; };

/// What the author of a layer writes: a type whose functions are all static, since its variables
/// live in the model's arenas.
///
/// For a layer L, a static shape In that L accepts, and T = float or double:
///  1. `L::name` converts to std::string_view.
///  2. `L::template Output<In>` is a Shape.
///  3. `L::template forward<In, T>(const ForwardPass<T>&)` writes y from x, for any number of
///     samples, 0 included. It does not allocate. A sample's output does not depend on its row.
///  4. `L::template backward<In, T>(const BackwardPass<T>&)` writes dx and gradients, both summed
///     over the samples and not divided by their number. An exception ends the training: on some
///     strategies variables change while backward goes on, so that a step would be half made.
///  5. Or, instead of 3 and 4, `L::aliases_input` is true: the output is the input, seen with
///     another shape.
/// Optional:
///  6. `L::template variables<In>`: a constexpr array of Variable, the trained ones. Default: none.
///  7. `L::template state_variables<In>`: the same for those that are not trained (moving
///     statistics). After each training step the model sets them to the mean of the replicas'
///     values, weighted by their samples.
///  8. `L::template scratch<In>(std::size_t stride)`: constexpr number of elements that forward
///     leaves for backward; and `L::template temporary<In>(std::size_t stride)`: of those that
///     forward or backward needs while it runs. All layers share the latter.
///  9. `L::template backward_weights<In, T>(const BackwardPass<T>&)`: like backward, but dx is
///     empty and not wanted. It is called for the first layer that has variables. Default:
///     backward, with a dx that is thrown away.
///     `L::template backward_input<In, T>(const BackwardPass<T>&)`: like backward, but there are no
///     gradients. It is called for a Frozen layer. Default: backward, with gradients that are
///     thrown away.
/// 10. `L::keeps_padding` is true: L leaves finite values in the padding of y and zeros in that of
///     dx. Default: the model clears the padding after each call.
/// 11. `L::template check<Position, In>()`: a consteval bool function whose static_asserts refuse
///     shapes that L cannot take, before Output<In> is asked. Position is the layer's in its
///     Sequential; a static_assert over a concept of both puts them beside the message on every
///     compiler.
/// 12. `L::template flop<In>`: a Flop, for `budget`, which names a layer that has none and has a
///     variable of two dimensions or more.
/// A layer may also satisfy InPlaceLayer, AnnouncingLayer, SummingLayer, OutputIgnoringLayer and
/// FusibleLayer, which save time, SequenceLayer, if it knows of positions, and ContainerLayer, if
/// it holds other layers.
///
/// Minimal model:
/// @code
/// struct Scale {  // y = factor * x, one factor per feature
///   static constexpr std::string_view name = "scale";
///   template <class In> using Output = In;
///   template <class In>
///   static constexpr std::array variables{
///       lockstep::Variable{"factor", {In::size}, lockstep::ones}};
///   template <class In, class T>
///   static void forward(const lockstep::ForwardPass<T>& p) {
///     for (std::size_t f = 0; f < In::size; ++f)
///       p.y.matrix().col(f) = p.weights[0][f] * p.x.matrix().col(f);
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
concept Layer = NamedLayer<L> && ShapedLayer<L, In> &&
                (AliasingLayer<L> || (ForwardLayer<L, In, T> && BackwardLayer<L, In, T>));

/// A layer whose backward may write dx over dy, which spares the caches: where input and output
/// have the same size, the model mostly gives it one array for both.
template <class L>
concept InPlaceLayer = requires { requires L::backward_in_place; };

/// A layer whose backward tells how far it is: it calls
/// pass.context.gradients_ready(pass.gradients) when it will not touch its gradients any more,
/// before it computes dx. It may also call pass.context.variables_done, and either for the
/// beginning of its first variable (see BackwardProgress). For other layers the model makes both
/// calls after backward.
///
/// `L::AnnouncesGradients` is L itself. (A type, so that a layer that inherits from L, or calls it
/// and changes the gradients afterwards, promises nothing.)
template <class L>
concept AnnouncingLayer = requires { requires std::is_same_v<typename L::AnnouncesGradients, L>; };

/// A layer that takes part in the sum of branches (Residual, Parallel<Add, ...>), which spares
/// passes over memory. `L::JoinsSums` is L itself (a type, for the reason that AnnouncesGradients
/// is one), and what L can do is true, for T = float and double:
///  1. `L::template adds_to_output<In>`: forward writes max(output + pass.addend, pass.minimum);
///     backward then has that as y, or nothing of use.
///  2. `L::template keeps_dy<In, T>`: where pass.keeps_dy says so, backward does not write to dy.
///  3. `L::template adds_to_dx<In, T>`: where pass.adds_to_dx says so, backward adds to what dx
///     holds.
///  4. `L::template adds_to_dy<In, T>`: both of these, and also where dx is dy.
template <class L>
concept SummingLayer = requires { requires std::is_same_v<typename L::JoinsSums, L>; };

/// A layer whose backward does not read y, so that a policy that keeps y in 16 bits need not unpack
/// it. `L::IgnoresOutput` is L itself. (A type, for the reason that AnnouncesGradients is one.)
template <class L>
concept OutputIgnoringLayer = requires { requires std::is_same_v<typename L::IgnoresOutput, L>; };

/// A layer that a model can fuse with its neighbours: with an Activation after it (1 to 3), and in
/// backward with the activation of the layer before it (4). Names, summary and saved state stay
/// those of the separate layers.
///
///  1. `L::template WithActivation<Function>`: the layer that does what L and an
///     Activation<Function> after it do, with the output and the variables of L. It exists only
///     while L has no activation (a requires-clause).
///  2. `L::OutputActivation`: the activation that L applies to its output; Linear for none.
///  3. `L::Preactivation`: L without it; `Preactivation::WithActivation<OutputActivation>` is L
///     again. (Both ways, so that a layer that inherits from L is not taken for it.)
/// Optional:
///  4. BackwardThroughLayer, for L and for its Preactivation.
///
/// Minimal model:
/// @code
/// template <class Function = lockstep::Linear>
/// struct Shift {  // + name, Output, forward and backward of a Layer, with Function applied to y
///   template <class F>
///     requires std::is_same_v<Function, lockstep::Linear>
///   using WithActivation = Shift<F>;
///   using OutputActivation = Function;
///   using Preactivation = Shift<>;
/// };
/// @endcode
template <class L>
concept FusibleLayer = requires {
  requires std::is_same_v<
      typename L::Preactivation::template WithActivation<typename L::OutputActivation>, L>;
};

/// A layer whose backward can go on through Function, the activation of the FusibleLayer before it:
/// `L::template backward_through<Self, Function, In, T>(const BackwardPass<T>&)`, with a
/// requires-clause that Self is L. There dx is the gradient of the value that Function made x of,
/// and is the same array as x. Of the layer before L, Preactivation then goes backward: its y is
/// dy, its scratch is what forward has left. This spares a pass over memory.
template <class L, class Function, class In, class T>
concept BackwardThroughLayer = requires(const BackwardPass<T>& pass) {
  L::template backward_through<L, Function, In, T>(pass);
};

/// A layer that holds layers, as Sequential does: the model sees the layers inside for names,
/// files, profile and summary.
///
///  0. It is a SequenceLayer.
///  1. `L::layer_count`: how many positions L takes in the flattened model: one for each layer
///     inside, and for a container inside its layer_count.
///  2. `L::template layers<In>`: a constexpr array of LayerInfo, one for each layer inside.
///     `L::template variables<In>` are their variables, layer by layer, and
///     `L::template state_variables<In>` their state variables.
///  3. forward and backward give each layer inside a StepContext whose `layer` is its own plus
///     the positions of the layers before it: that keeps random numbers and times apart. They give
///     it scratch and temporary memory, too, for which `L::template scratch<In>` and `L::template
///     temporary<In>` ask, as a SequenceLayer's: scratch of its own, and temporary memory that no
///     other layer uses while it runs.
/// Optional:
///  4. `L::template each_output<In, T>(first, pass, f)` calls f(position, y) for the output of each
///     layer inside, where `pass` is the ForwardPass<T> that forward has had and `first` the
///     position of L. Default: f is called for the output of L.
///
/// Minimal model, around one layer:
/// @code
/// template <class Inner>
/// struct Wrapped {  // + forward and backward, which call Inner's
///   static constexpr std::string_view name = "wrapped";
///   static constexpr bool takes_sequences = true;
///   static constexpr std::size_t layer_count = 1;
///   template <class In> using Output = typename Inner::template Output<In>;
///   template <class In>
///   static constexpr auto variables = Inner::template variables<In>;
///   template <class In>
///   static constexpr std::array layers{lockstep::LayerInfo{
///       .name = Inner::name, .output_extents = Output<In>::extents, .variables = variables<In>}};
/// };
/// @endcode
template <class L, class In>
concept ContainerLayer = NamedLayer<L> && SequenceLayer<L> && requires {
  { L::layer_count } -> std::convertible_to<std::size_t>;
  L::template layers<In>;  // (clang++ 14 does not deduce its type here)
};

}}  // namespace lockstep
