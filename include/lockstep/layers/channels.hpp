// What the layers share that treat each channel by itself, above all the normalisation layers.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/channel_sums.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The last dimension of a Shape.
template <class In>
inline constexpr std::size_t channels = In::extents[In::rank - 1];

/// The product of the other ones.
template <class In>
inline constexpr std::size_t pixels = In::size / channels<In>;

/// Samples of shape In, seen as pixels and channels.
template <class In, class T>
kernels::ChannelSize channel_size(const TensorView<T>& x) {
  return {
      .pixels = pixels<In>, .channels = channels<In>, .samples = x.samples(), .stride = x.stride()};
}

/// A value for each channel.
template <class In>
constexpr Variable channel_variable(std::string_view name, const Initializer& initializer) {
  return {name, {channels<In>}, initializer, Fans{channels<In>, channels<In>}};
}

/// gamma and beta, or one of them, or neither, as the options of a normalisation layer say.
template <class In, auto Options>
consteval auto scale_and_center() {
  std::array<Variable, std::size_t{Options.scale} + std::size_t{Options.center}> all{};
  if constexpr (Options.scale)
    all[0] = channel_variable<In>("gamma", Options.gamma_initializer)
                 .with(Options.gamma_regularizer, Options.gamma_constraint);
  if constexpr (Options.center)
    all[Options.scale ? 1 : 0] = channel_variable<In>("beta", Options.beta_initializer)
                                     .with(Options.beta_regularizer, Options.beta_constraint);
  return all;
}

/// gamma and beta among `slices` (the weights, or their gradients); null where the layer has none.
template <class T>
struct ScaleAndCenter {
  T* gamma = nullptr;
  T* beta = nullptr;
};
template <auto Options, class T>
ScaleAndCenter<T> scale_and_center_of(std::span<const std::span<T>> slices) {
  ScaleAndCenter<T> result;
  if constexpr (Options.scale) result.gamma = slices[0].data();
  if constexpr (Options.center) result.beta = slices[Options.scale ? 1 : 0].data();
  return result;
}

/// Sets the gradients of gamma and beta from the sums of dy (null without beta) and of dy * z.
template <auto Options, class T>
void set_scale_and_center(std::span<const std::span<T>> gradients, std::size_t channels,
                          const double* sums, const double* products) {
  const ScaleAndCenter<T> to = scale_and_center_of<Options>(gradients);
  for (std::size_t c = 0; c < channels; ++c) {
    if constexpr (Options.scale) to.gamma[c] = static_cast<T>(products[c]);
    if constexpr (Options.center) to.beta[c] = static_cast<T>(sums[c]);
  }
}

}}}  // namespace lockstep::detail
