// LayerNormalization: the channels of each sample get mean 0 and variance 1.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/layer_normalization.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of LayerNormalization; the defaults are Keras's.
struct LayerNormalizationOptions {
  double epsilon = 1e-3;  ///< added to the variance, above 0
  bool center = true;     ///< add beta
  bool scale = true;      ///< multiply by gamma
  InitializerOption gamma_initializer = ones;
  InitializerOption beta_initializer = zeros;
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
    return 2 * pixels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const T* gamma = nullptr;
    const T* offset = nullptr;
    if constexpr (Options.scale) gamma = pass.weights[0].data();
    if constexpr (Options.center) offset = pass.weights[beta].data();
    T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalization<T>{size<In>(pass.x), pass.x.data(), gamma, offset, Options.epsilon,
                                                     mean, mean + pixels<In> * pass.x.stride(), pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    constexpr std::size_t channels = detail::channels<In>;
    std::array<double, 2 * channels> sums;
    const T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalizationSums<T>{size<In>(pass.x), pass.x.data(), mean,
                                                         mean + pixels<In> * pass.x.stride(), pass.dy.data(),
                                                         sums.data(), sums.data() + channels});
    for (std::size_t c = 0; c < channels; ++c) {
      if constexpr (Options.scale) pass.gradients[0][c] = static_cast<T>(sums[channels + c]);
      if constexpr (Options.center) pass.gradients[beta][c] = static_cast<T>(sums[c]);
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if constexpr (Options.scale || Options.center) backward_weights<In, T>(pass);
    const T* gamma = nullptr;
    if constexpr (Options.scale) gamma = pass.weights[0].data();
    const T* const mean = pass.scratch.data();
    kernels::dispatch(kernels::LayerNormalizationInputGradient<T>{size<In>(pass.x), pass.x.data(), mean,
                                                                  mean + pixels<In> * pass.x.stride(), gamma,
                                                                  pass.dy.data(), pass.dx.data()});
  }

 private:
  template <class In>
  static constexpr std::size_t pixels = In::size / In::extents[In::rank - 1];
  static constexpr std::size_t beta = Options.scale ? 1 : 0;  ///< its place among the variables

  template <class In, class T>
  static kernels::ChannelSize size(const TensorView<T>& x) {
    return {.pixels = pixels<In>, .channels = detail::channels<In>, .samples = x.samples(), .stride = x.stride()};
  }
};

static_assert(Layer<LayerNormalization<>, Shape<26, 26, 32>>);
static_assert(Layer<LayerNormalization<LayerNormalizationOptions{.scale = false}>, Shape<10>, double>);

}  // namespace lockstep::inline LOCKSTEP_ABI
