// Conv1D: a small window slides over a sequence.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/convolution1d.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of Conv1D; the defaults are Keras's.
struct Conv1DOptions {
  std::size_t stride = 1;
  Padding padding = Padding::valid;  ///< causal: an output sees its own position and earlier ones
  std::size_t dilation_rate = 1;     ///< the distance of a kernel's taps
  std::size_t groups = 1;            ///< each group of filters sees its group of features only
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

namespace detail {

template <std::size_t Position, class In, std::size_t Groups>
concept DividedByGroups = TokenOf<In>::size % Groups == 0;
}

/// y = Activation(x convolved with Filters kernels of Kernel taps + bias), for a Sequence<T,
/// features>; as usual with neural networks it is a cross-correlation. Output: Sequence<T',
/// Filters>. The mask of x ends here. Variables: kernel [Kernel x features / groups x Filters] and
/// bias [Filters].
/// Use: `Conv1D<8, 3, ReLU>`: Sequence<10, 4> -> Sequence<8, 8>; kernel (3, 4, 8), bias (8).
template <std::size_t Filters, std::size_t Kernel, class Activation = Linear,
          Conv1DOptions Options = Conv1DOptions{}>
  requires the_activation_stands_before_the_options<Activation>
struct Conv1D {
 private:
  using Windows = detail::SequenceWindows<(Kernel - 1) * Options.dilation_rate + 1, Options.stride,
                                          Options.padding>;

 public:
  static_assert(Filters > 0 && Kernel > 0,
                "lockstep: Conv1D needs at least one filter of at least one tap");
  static_assert(Options.stride > 0 && Options.dilation_rate > 0,
                "lockstep: the stride and the dilation_rate of Conv1D must be at least 1");
  static_assert(Options.groups > 0 && Filters % Options.groups == 0,
                "lockstep: the groups of Conv1D must divide the number of its filters");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the third parameter of Conv1D is no activation function; use ls::ReLU, "
                "ls::Linear, ...");

  static constexpr std::string_view name = "conv1d";
  static constexpr std::string_view class_name = "Conv1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = Conv1D;

  template <std::size_t Position, class In>
  static consteval bool check() {
    detail::check_sequence_window<Position, In, Windows>();
    static_assert(detail::DividedByGroups<Position, In, Options.groups>,
                  "lockstep: the groups of Conv1D must divide the number of its input's features");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = Conv1D<Filters, Kernel, Function, Options>;

  using OutputActivation = Activation;
  using Preactivation = Conv1D<Filters, Kernel, Linear, Options>;

  template <class In>
  using Output = Sequence<Windows::template outputs<In>, Filters>;

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      Variable{"kernel",
               {Kernel, TokenOf<In>::size / Options.groups, Filters},
               Options.kernel_initializer,
               Fans{Kernel * TokenOf<In>::size / Options.groups, Kernel* Filters}}
          .with(Options.kernel_regularizer, Options.kernel_constraint),
      Variable{"bias", {Filters}, Options.bias_initializer, Fans{Filters, Filters}}.with(
          Options.bias_regularizer, Options.bias_constraint));

  template <class In>
  static constexpr Flop flop =
      product_flop(Output<In>::size * Kernel * TokenOf<In>::size / Options.groups);

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    const kernels::Convolution1DSize s = size<In>(samples);
    return s.columns_size() + detail::slope_size<Activation>(Filters * s.y_stride);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return kernels::convolution1d_scratch(size<In>(samples));
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const kernels::Convolution1DSize s = size<In>(pass.x.samples() / positions_of<In>);
    kernels::convolution1d_forward<T>(
        s, pass.x.data(), pass.weights[0].data(), detail::bias<Options.use_bias>(pass.weights),
        pass.y.data(), pass.scratch.data(), {detail::fused_minimum<Activation, T>()});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Filters * s.y_stride, pass.y.data(), pass.y.data(),
                                      slope(s, pass));
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    weight_gradient<In, T>(pass, false);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const kernels::Convolution1DSize s = weight_gradient<In, T>(pass, true);
    pass.context.gradients_ready(pass.gradients);
    kernels::convolution1d_input_gradient<T>(s, pass.weights[0].data(), pass.dy.data(),
                                             pass.scratch.data(), pass.dx.data());
  }

 private:
  /// Kept for backward, if the activation needs it.
  template <class Pass>
  static auto* slope(const kernels::Convolution1DSize& s, const Pass& pass) {
    return pass.scratch.data() + s.columns_size();
  }

  template <class In>
  static constexpr kernels::Convolution1DSize size(std::size_t samples) {
    return {.samples = samples,
            .steps = positions_of<In>,
            .out_steps = Output<In>::positions,
            .channels = TokenOf<In>::size,
            .filters = Filters,
            .taps = Kernel,
            .stride = Options.stride,
            .dilation = Options.dilation_rate,
            .groups = Options.groups,
            .pad = Windows::template pad<In>,
            .x_stride = padded_batch(samples * positions_of<In>),
            .y_stride = padded_batch(samples * Output<In>::positions)};
  }

  template <class In, class T>
  static kernels::Convolution1DSize weight_gradient(const BackwardPass<T>& pass, bool keep_delta) {
    const kernels::Convolution1DSize s = size<In>(pass.x.samples() / positions_of<In>);
    kernels::convolution1d_weight_gradient<T>(
        s, pass.scratch.data(),
        detail::activation_delta<Activation, T>(Filters * s.y_stride, pass.dy.data(), pass.y.data(),
                                                slope(s, pass), keep_delta),
        pass.gradients[0].data(), detail::bias<Options.use_bias>(pass.gradients),
        pass.temporary.data());
    return s;
  }
};

}}  // namespace lockstep
