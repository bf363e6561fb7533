// Activation functions as layers of their own, and softmax.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/softmax.hpp"
#include "lockstep/kernels/vector_loops.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// y = Function(x), element by element, for samples of any shape: `Activation<ReLU>`. A model lets
/// the layer before it do it, where that has a WithActivation (Dense, Conv2D, BatchNormalization)
/// and no activation of its own: then it costs what it does as their parameter.
template <class Function>
struct Activation {
  static_assert(ActivationFunction<Function>,
                "lockstep: the parameter of Activation is no activation function; use ls::ReLU, "
                "ls::Tanh, ...");
  static constexpr std::string_view name = "activation";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  /// What does the work of L and of this layer after it.
  template <class L>
    requires requires {
      requires std::is_same_v<typename L::template WithActivation<Function>::Preactivation, L>;
    }
  using FusedInto = typename L::template WithActivation<Function>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::slope_size<Function>(In::size * stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::activate<Function, T>(In::size * pass.x.stride(), pass.x.data(), pass.y.data(),
                                  pass.scratch.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    detail::activation_gradient<Function, T>(In::size * pass.y.stride(), pass.dy.data(),
                                             pass.y.data(), pass.scratch.data(), pass.dx.data());
  }
};

/// y_c = exp(x_c) / sum of exp(x) over the last dimension, for samples of any shape. (With a loss
/// from logits leave it out: that loses no digits.)
struct Softmax {
  static constexpr std::string_view name = "softmax";
  static constexpr bool keeps_padding = true;

  template <class In>
  using Output = In;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(kernels::Softmax<T>{
        .size = size<In>(pass.x.stride()), .x = pass.x.data(), .y = pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    kernels::dispatch(kernels::SoftmaxGradient<T>{size<In>(pass.x.stride()), pass.dy.data(),
                                                  pass.y.data(), pass.dx.data()});
  }

 private:
  template <class In>
  static constexpr kernels::GroupSize size(std::size_t stride) {
    constexpr std::size_t classes = In::extents[In::rank - 1];
    return {.groups = In::size / classes, .features = classes, .samples = stride, .stride = stride};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
