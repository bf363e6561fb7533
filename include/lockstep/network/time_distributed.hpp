// TimeDistributed: a layer over each step of a sequence.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/sequential.hpp"

// Tokens lie in memory as samples do. So the layer is given a batch of all of them, and no number
// is moved, but where the input is a Shape.

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

template <std::size_t Position, class In>
inline constexpr bool has_steps = In::rank > 1;

template <class In>
using StepsOf = typename SequenceOfShape<In>::Type;

/// (A Sequence of single numbers where the layer makes a Sequence: the message of check() says
/// enough.)
template <class In, class Output>
constexpr auto time_distributed_output() {
  if constexpr (is_sequence<Output>)
    return Sequence<positions_of<StepsOf<In>>, 1>{};
  else
    return SequenceOf<positions_of<StepsOf<In>>, Output>{};
}

}  // namespace detail

/// Steps, and in each of them at least one dimension.
template <std::size_t Position, class In>
concept InputOfSteps = detail::has_steps<Position, In>;

/// L, a layer or a container, applied to each step of a Sequence<T, ...> or of a Shape<T, ...>,
/// whose first dimension is time: L sees each sample as T samples of Shape<...>. Output:
/// Sequence<T, ...> of L's outputs, which LSTM and Conv1D take directly, with the input's mask.
/// (Layers that know nothing of positions are applied so to a Sequence anyway. With it a
/// Shape may be the input, and L may contain Flatten, pooling over positions, or a recurrent layer
/// behind ToSequence, which else would see all steps.)
/// @code
/// // 16 frames of a video: features of each, and what they are together.
/// using Frames = Sequential<Conv2D<16, 3, ReLU>, MaxPooling2D<>, Flatten, Dense<64, ReLU>>;
/// using Net = Sequential<Input<16, 32, 32, 3>, TimeDistributed<Frames>, LSTM<64>, Dense<5>>;
/// @endcode
/// Use: `TimeDistributed<Conv2D<4, 3>>`: Shape<5, 8, 8, 1> -> Sequence<5, 6, 6, 4>; kernel (3, 3,
/// 1, 4), bias (4).
template <class L>
  requires each_layer_has_its_angle_brackets<L>
struct TimeDistributed {
 private:
  using Inner = detail::LayersInARow<detail::ChainTables<L>>;
  template <class In>
  using Step = TokenOf<detail::StepsOf<In>>;
  template <class In>
  static constexpr std::size_t steps = positions_of<detail::StepsOf<In>>;
  template <class In>
  static constexpr detail::TensorSize rows = detail::tensor_size<detail::StepsOf<In>>;

 public:
  static constexpr std::string_view name = "time_distributed";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;
  static constexpr bool keeps_mask = true;
  static constexpr std::size_t layer_count = Inner::layer_count;
  using AnnouncesGradients = TimeDistributed;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(InputOfSteps<Position, In>,
                  "lockstep: TimeDistributed needs an input whose first dimension is time, and a "
                  "step of at least one dimension: Shape<T, ...> or Sequence<T, ...>");
    if constexpr (InputOfSteps<Position, In>)
      static_assert(!SequenceInput<Position, typename detail::OutputShape<L, Step<In>>::Type>,
                    "lockstep: the layer of TimeDistributed makes a Sequence of each step: end it "
                    "with a layer that gives a Shape, as ls::LSTM or ls::Flatten does");
    return true;
  }

  template <class In>
  using Output =
      decltype(detail::time_distributed_output<In,
                                               typename detail::OutputShape<L, Step<In>>::Type>());

  template <class In>
  static constexpr auto layers = Inner::template layers<Step<In>>;
  template <class In>
  static constexpr auto variables = Inner::template variables<Step<In>>;
  template <class In>
  static constexpr auto state_variables = Inner::template state_variables<Step<In>>;
  template <class In>
  static constexpr const detail::KeptFormat* kept_format = Inner::template kept_format<Step<In>>;
  template <class In>
  static constexpr Flop flop = steps<In> * Inner::template flop<Step<In>>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return moved<In>(samples) + Inner::template scratch<Step<In>>(steps<In> * samples);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return moved<In>(samples) + Inner::template temporary<Step<In>>(steps<In> * samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if constexpr (!is_sequence<In>)
      detail::copy_to_rows<detail::StepsOf<In>, T>(
          pass.x, rows<In>.view(pass.scratch.data(), pass.x.samples()));
    const StepContext context = context_of_steps<In>(pass.context);
    Inner::template forward<Step<In>, T>(pass_of_steps<In>(pass, context));
  }

  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    Inner::template each_output<Step<In>, T>(first, pass_of_steps<In>(pass, pass.context), f);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In>(pass, Inner::template backward<Step<In>, T>);
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In>(pass, Inner::template backward_weights<Step<In>, T>);
  }

 private:
  /// Elements of x by rows, where it is not so already.
  template <class In>
  static constexpr std::size_t moved(std::size_t samples) {
    return is_sequence<In> ? 0 : rows<In>.elements(samples);
  }

  /// Each step draws its random numbers, as each token does.
  template <class In>
  static StepContext context_of_steps(const StepContext& context) {
    StepContext own = context;
    own.positions *= steps<In>;
    return own;
  }

  template <class In, class T, class Pass>
  static TensorView<const T> x_of_steps(const Pass& pass, std::size_t samples) {
    if constexpr (is_sequence<In>)
      return pass.x;
    else
      return rows<In>.view(static_cast<const T*>(pass.scratch.data()), samples);
  }

  template <class In, class T>
  static ForwardPass<T> pass_of_steps(const ForwardPass<T>& pass, const StepContext& context) {
    const std::size_t samples = detail::samples_of(pass.x, detail::tensor_size<In>);
    return {.context = context,
            .weights = pass.weights,
            .state = pass.state,
            .x = x_of_steps<In, T>(pass, samples),
            .y = pass.y,
            .scratch = pass.scratch.subspan(moved<In>(samples)),
            .mask = is_sequence<In> ? pass.mask : nullptr,
            .temporary = pass.temporary.subspan(moved<In>(samples))};
  }

  template <class In, class T>
  static void run_backward(const BackwardPass<T>& pass,
                           void (*backward_steps)(const BackwardPass<T>&)) {
    const std::size_t samples = detail::samples_of(pass.x, detail::tensor_size<In>);
    const StepContext context = context_of_steps<In>(pass.context);
    const bool moves = !is_sequence<In> && !pass.dx.empty();
    const TensorView<T> dx = moves ? rows<In>.view(pass.temporary.data(), samples) : pass.dx;
    backward_steps({.context = context,
                    .weights = pass.weights,
                    .state = pass.state,
                    .x = x_of_steps<In, T>(pass, samples),
                    .y = pass.y,
                    .dy = pass.dy,
                    .dx = dx,
                    .gradients = pass.gradients,
                    .scratch = pass.scratch.subspan(moved<In>(samples)),
                    .temporary = pass.temporary.subspan(moved<In>(samples))});
    if constexpr (!is_sequence<In>)
      if (moves) detail::copy_to_samples<detail::StepsOf<In>, T>(dx, pass.dx);
  }
};

}}  // namespace lockstep
