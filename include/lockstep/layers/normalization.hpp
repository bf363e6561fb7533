// Normalization: channels of the data get mean 0 and variance 1, once and for all.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/channel_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {
/// A value for each channel that no step changes.
template <class In>
constexpr Variable channel_constant(std::string_view name, Initializer initializer) {
  Variable variable = channel_variable<In>(name, initializer);
  variable.is_constant = true;
  return variable;
}
}  // namespace detail

/// Compile-time options of Normalization; the default is Keras's.
struct NormalizationOptions {
  bool invert = false;  ///< the other way round: from mean 0 and variance 1 to those of the data
};

/// y = (x - mean) / max(sqrt(variance), 1e-7) for each channel, the last dimension of samples of
/// any shape; mean and variance are those of the data and are not trained. Variables that are not
/// trained: mean and variance [channels], at first 0 and 1, with which the layer changes nothing;
/// Model::adapt or load_weights sets them.
/// Use: `Normalization<>`: Shape<10> -> Shape<10>; not trained: mean (10), variance (10).
template <NormalizationOptions Options = NormalizationOptions{}>
struct Normalization {
  static constexpr std::string_view name = "normalization";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  template <class In>
  static constexpr std::array state_variables{detail::channel_constant<In>("mean", zeros),
                                              detail::channel_constant<In>("variance", ones)};

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if (pass.context.moments) tell_moments<In>(pass);
    const Numbers<In, T> numbers(pass.state);
    kernels::dispatch(kernels::ScaleChannels<T>{.size = detail::channel_size<In>(pass.x),
                                                .x = pass.x.data(),
                                                .mean = numbers.mean.data(),
                                                .scale = numbers.scale.data(),
                                                .offset = numbers.offset.data(),
                                                .y = pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const Numbers<In, T> numbers(pass.state);
    const std::array<T, detail::channels<In>> zero{};
    kernels::dispatch(kernels::ScaleChannels<T>{.size = detail::channel_size<In>(pass.dy),
                                                .x = pass.dy.data(),
                                                .mean = zero.data(),
                                                .scale = numbers.scale.data(),
                                                .offset = zero.data(),
                                                .y = pass.dx.data()});
  }

 private:
  template <class In, class T>
  static void tell_moments(const ForwardPass<T>& pass) {
    std::array<double, detail::channels<In>> mean, squares;
    const kernels::ChannelSize size = detail::channel_size<In>(pass.x);
    kernels::dispatch(kernels::ChannelMoments<T>{size, pass.x.data(), mean.data(), squares.data()});
    pass.context.moments({.count = static_cast<double>(size.pixels * size.samples),
                          .mean = mean,
                          .squares = squares,
                          .mean_variable = pass.state[0].data(),
                          .variance_variable = pass.state[1].data()});
  }

  /// y = (x - mean) * scale + offset.
  template <class In, class T>
  struct Numbers {
    std::array<T, detail::channels<In>> mean{}, scale{}, offset{};

    explicit Numbers(Slices<T> state) {
      for (std::size_t c = 0; c < mean.size(); ++c) {
        const double deviation = std::max(std::sqrt(static_cast<double>(state[1][c])), 1e-7);
        (Options.invert ? offset : mean)[c] = state[0][c];
        scale[c] = static_cast<T>(Options.invert ? deviation : 1 / deviation);
      }
    }
  };
};

}}  // namespace lockstep
