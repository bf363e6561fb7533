// RMSNormalization: the channels of each sample get a mean square of 1.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/layer_normalization.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of RMSNormalization; the default is Keras's.
struct RMSNormalizationOptions {
  double epsilon = 1e-6;  ///< added to the mean square, above 0
};

/// y = scale * x / sqrt(mean of x^2 + epsilon), where the mean is that over the last dimension of
/// each sample, of any shape; the same in training and inference. Variable: scale [channels].
/// Zhang, Sennrich, "Root mean square layer normalization", NeurIPS 2019.
template <RMSNormalizationOptions Options = RMSNormalizationOptions{}>
struct RMSNormalization {
  static_assert(Options.epsilon > 0, "lockstep: the epsilon of RMSNormalization must be above 0");

  static constexpr std::string_view name = "rms_normalization";
  static constexpr std::string_view class_name = "RMSNormalization";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In>
  static constexpr std::array variables{detail::channel_variable<In>("scale", ones)};

  /// The factor of each pixel.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::pixels<In> * stride;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(
        kernels::LayerNormalization<T, false>{.size = detail::channel_size<In>(pass.x),
                                              .x = pass.x.data(),
                                              .gamma = pass.weights[0].data(),
                                              .epsilon = Options.epsilon,
                                              .inverse = pass.scratch.data(),
                                              .y = pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    std::array<double, detail::channels<In>> products;
    kernels::dispatch(
        kernels::LayerNormalizationSums<T, false>{.size = detail::channel_size<In>(pass.x),
                                                  .x = pass.x.data(),
                                                  .inverse = pass.scratch.data(),
                                                  .dy = pass.dy.data(),
                                                  .products = products.data()});
    for (std::size_t c = 0; c < products.size(); ++c)
      pass.gradients[0][c] = static_cast<T>(products[c]);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    kernels::dispatch(
        kernels::LayerNormalizationInputGradient<T, false>{.size = detail::channel_size<In>(pass.x),
                                                           .x = pass.x.data(),
                                                           .inverse = pass.scratch.data(),
                                                           .gamma = pass.weights[0].data(),
                                                           .dy = pass.dy.data(),
                                                           .dx = pass.dx.data()});
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
