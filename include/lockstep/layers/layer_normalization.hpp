// LayerNormalization: the channels of each sample get mean 0 and variance 1.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/constraint.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/layer_normalization.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of LayerNormalization; the defaults are Keras's.
struct LayerNormalizationOptions {
  double epsilon = 1e-3;  ///< added to the variance, above 0
  bool center = true;     ///< add beta
  bool scale = true;      ///< multiply by gamma
  InitializerOption gamma_initializer = ones;
  InitializerOption beta_initializer = zeros;
  Regularizer gamma_regularizer = {};
  Regularizer beta_regularizer = {};
  Constraint gamma_constraint = {};
  Constraint beta_constraint = {};
};

/// y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, where mean and (biased) variance are
/// those over the last dimension of each sample, of any shape; the same in training and inference.
/// Variables: gamma and beta [channels]. Ba, Kiros, Hinton, "Layer normalization", arXiv
/// 1607.06450, 2016.
template <LayerNormalizationOptions Options = LayerNormalizationOptions{}>
struct LayerNormalization {
  static_assert(Options.epsilon > 0, "lockstep: the epsilon of LayerNormalization must be above 0");

  static constexpr std::string_view name = "layer_normalization";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In>
  static constexpr auto variables = detail::scale_and_center<In, Options>();

  /// Mean and inverse deviation.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return 2 * detail::pixels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const auto [gamma, beta] = detail::scale_and_center_of<Options>(pass.weights);
    T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalization<T>{
        detail::channel_size<In>(pass.x), pass.x.data(), gamma, beta, Options.epsilon, mean,
        mean + detail::pixels<In> * pass.x.stride(), pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    constexpr std::size_t channels = detail::channels<In>;
    std::array<double, 2 * channels> sums;
    const T* const mean = pass.scratch.data();
    kernels::dispatch(
        kernels::LayerNormalizationSums<T>{detail::channel_size<In>(pass.x), pass.x.data(), mean,
                                           mean + detail::pixels<In> * pass.x.stride(),
                                           pass.dy.data(), sums.data(), sums.data() + channels});
    detail::set_scale_and_center<Options>(pass.gradients, channels, sums.data(),
                                          sums.data() + channels);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if constexpr (Options.scale || Options.center) backward_weights<In, T>(pass);
    const T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalizationInputGradient<T>{
        detail::channel_size<In>(pass.x), pass.x.data(), mean,
        mean + detail::pixels<In> * pass.x.stride(),
        detail::scale_and_center_of<Options>(pass.weights).gamma, pass.dy.data(), pass.dx.data()});
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
