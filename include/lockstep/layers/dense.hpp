// Dense: every unit sees every input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of Dense; the defaults are Keras's.
struct DenseOptions {
  bool use_bias = true;
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

/// y = Activation(x W + b), for samples of shape Shape<inputs>. Variables: the kernel W, [inputs x
/// units], and the bias b, [units].
/// Use: `Dense<10, ReLU>`: Shape<20> -> Shape<10>; kernel (20, 10), bias (10).
template <std::size_t Units, class Activation = Linear, DenseOptions Options = DenseOptions{}>
  requires the_activation_stands_before_the_options<Activation>
struct Dense {
  static_assert(Units > 0, "lockstep: Dense needs at least one unit");
  static_assert(ActivationFunction<Activation>,
                "lockstep: the second parameter of Dense is no activation function; use ls::ReLU, "
                "ls::Linear, ...; ls::Softmax is a layer: put it behind this one");

  static constexpr std::string_view name = "dense";
  static constexpr bool keeps_padding = true;
  using AnnouncesGradients = Dense;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatInput<Position, In>,
                  "lockstep: Dense needs a flat input, and its input has more dimensions: put "
                  "ls::Flatten before it");
    return true;
  }

  template <class Function>
    requires detail::is_identity<Activation>
  using WithActivation = Dense<Units, Function, Options>;

  using IgnoresOutput = std::conditional_t<detail::gradient_ignores_y<Activation>, Dense, void>;

  using OutputActivation = Activation;
  using Preactivation = Dense<Units, Linear, Options>;

  template <class In>
  using Output = Shape<Units>;

  template <class In>
  static constexpr auto variables = detail::kernel_and_bias<Options.use_bias>(
      Variable{"kernel", {In::size, Units}, Options.kernel_initializer, Fans{In::size, Units}}
          .with(Options.kernel_regularizer, Options.kernel_constraint)
          .for_products(Units),
      Variable{"bias", {Units}, Options.bias_initializer, Fans{Units, Units}}.with(
          Options.bias_regularizer, Options.bias_constraint));

  template <class In>
  static constexpr Flop flop = product_flop(In::size * Units);
  template <class In>
  static constexpr Flop frozen_flop{2 * In::size * Units, 2 * In::size* Units, 0};

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::slope_size<Activation>(Units * stride);
  }
  /// The first elements of scratch, which may have 16 bits where a policy says so.
  template <class In>
  static constexpr std::size_t packed_scratch(std::size_t stride) {
    return scratch<In>(stride);
  }
  /// The gradient of the output, transposed.
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    return kernels::dense_scratch(Units, stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dense_forward<T>({In::size, Units, pass.x.stride()}, pass.x.data(),
                              pass.weights[0].data(), detail::bias<Options.use_bias>(pass.weights),
                              pass.y.data(), {detail::fused_minimum<Activation, T>()});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Units * pass.y.stride(), pass.y.data(), pass.y.data(),
                                      slope(pass));
  }

  template <class In, class T>
  static void forward_few(const FewSamplesPass<T>& pass) {
    kernels::few_forward<T>({pass.samples,
                             In::size,
                             Units,
                             pass.x,
                             pass.weights[0].data(),
                             detail::bias<Options.use_bias>(pass.weights),
                             pass.y,
                             {detail::fused_minimum<Activation, T>()}});
    if constexpr (!detail::is_fused<Activation, T>)
      detail::activate<Activation, T>(Units * pass.samples, pass.y, pass.y, pass.scratch);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T, false>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In, T, true>(pass);
  }

  template <class In, class T>
  static void backward_input(const BackwardPass<T>& pass) {
    const std::size_t stride = pass.x.stride();
    if constexpr (!detail::is_identity<Activation>)
      detail::activation_gradient<Activation, T>(Units * stride, pass.dy.data(), pass.y.data(),
                                                 slope(pass), pass.dy.data());
    kernels::dense_input_gradient<T>({In::size, Units, stride}, pass.weights[0].data(),
                                     pass.dy.data(), pass.dx.data());
  }

  template <class Self, class Function, class In, class T>
    requires(std::is_same_v<Self, Dense> && detail::has_minimum<Function, T> &&
             kernels::can_mask_input_gradient(Units))
  static void backward_through(const BackwardPass<T>& pass) {
    run_backward<In, T, true>(pass, {.minimum = Function::template minimum<T>, .masks = true});
  }

 private:
  /// Kept for backward, if the activation needs it.
  template <class Pass>
  static auto* slope(const Pass& pass) {
    return pass.scratch.data();
  }

  /// Some inputs after the other, so that their values, weights and gradients come from memory
  /// once.
  template <class In, class T, bool InputGradient>
  static void run_backward(const BackwardPass<T>& pass, kernels::Finish<T> finish = {}) {
    const std::size_t stride = pass.x.stride();
    const kernels::Delta<T> delta = detail::activation_delta<Activation, T>(
        Units * stride, pass.dy.data(), pass.y.data(), slope(pass), InputGradient);
    kernels::dense_bias_gradient<T>({0, Units, stride}, delta,
                                    detail::bias<Options.use_bias>(pass.gradients),
                                    pass.temporary.data());
    for (std::size_t input = 0; input < In::size;) {
      const std::size_t count =
          std::min(kernels::dense_inputs_at_once(Units, stride), In::size - input);
      const kernels::DenseSize size{count, Units, stride, In::size - input - count};
      kernels::dense_weight_gradient<T>(size, pass.x.data() + input * stride, pass.temporary.data(),
                                        pass.gradients[0].data() + input * Units);
      pass.context.gradients_ready(pass.gradients, (input + count) * Units);
      if constexpr (InputGradient)
        kernels::dense_input_gradient<T>(size, pass.weights[0].data() + input * Units,
                                         pass.dy.data(), pass.dx.data() + input * stride, finish);
      input += count;
      pass.context.variables_done(pass.gradients, input * Units);
    }
  }
};

}}  // namespace lockstep
